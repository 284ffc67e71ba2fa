package mechanism_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"minsep/internal/must"
	"minsep/internal/param"
	"minsep/mechanism"
)

func TestMemory(t *testing.T) {
	for text, want := range map[string]mechanism.Memory{"inf": mechanism.NoForgetting, "1": 1, "250.5": 250.5, "1e5": 1e5} {
		var set, read mechanism.Memory
		if err := set.Set(text); err != nil || set != want {
			t.Errorf("%s: %v, %v", text, set, err)
		}
		if again := new(mechanism.Memory); again.Set(set.String()) != nil || *again != want {
			t.Errorf("%s as text: %v", text, set)
		}
		if err := json.Unmarshal(must.Get(json.Marshal(set))(t), &read); err != nil || read != want {
			t.Errorf("%s through JSON: %v, %v", text, read, err)
		}
	}
	for _, text := range []string{"", "0", "0.99", "-1", "nan", "+inf", "Inf", "half"} {
		var m mechanism.Memory
		if m.Set(text) == nil || json.Unmarshal([]byte(text), &m) == nil || m != 0 {
			t.Errorf("%q is accepted as %v", text, m)
		}
	}
}

// TestTrainingWorkload holds the workload of a training against the recursion of its optimizer,
// with the learning rate R, written as frameworks have it: what one unit of noise in the gradient
// of a step does to the model after each step, over R.
func TestTrainingWorkload(t *testing.T) {
	const n, rate = 9, .5
	cosine := mechanism.RatesOf(mechanism.WarmupCosineSchedule, n, 3)
	for _, c := range []struct {
		mechanism.Training
		pull, decay float64 // of the gradient and of the model, at each step
		rates       []float64
	}{
		{Training: mechanism.Training{Memory: mechanism.NoForgetting, Optimizer: mechanism.SGD}},
		{Training: mechanism.Training{Memory: 4}, pull: .25},
		{Training: mechanism.Training{}},
		{Training: mechanism.Training{Optimizer: mechanism.SGD}, pull: 1 / (n / 2.)},
		{Training: mechanism.Training{Memory: 4, Momentum: .8, Schedule: mechanism.WarmupCosineSchedule, WarmupSteps: 3}, pull: .25 * (1 - .8), rates: cosine},
		{Training: mechanism.Training{Memory: 4, Momentum: .8, WeightDecay: .1, LearningRate: rate, Schedule: mechanism.CosineSchedule}, pull: .25*(1-.8) + .1*rate, rates: mechanism.RatesOf(mechanism.CosineSchedule, n, 0)},
		{Training: mechanism.Training{Memory: 4, Momentum: .8, WeightDecay: .1, LearningRate: rate, Schedule: mechanism.LinearSchedule, Optimizer: mechanism.Adam}, pull: .25 * (1 - .8), decay: .1, rates: mechanism.RatesOf(mechanism.LinearSchedule, n, 0)},
	} {
		p := mechanism.Params{Kind: mechanism.KindIdentity, Steps: n, Training: c.Training}
		must.Do(t, p.Validate())
		m := workloadMatrix(must.Get(p.Problem(nil))(t).Workload)
		for j := range n {
			model, velocity := 0.0, 0.0
			for i := range n {
				gradient := c.pull / rate * model
				if i == j {
					gradient++
				}
				eta := rate
				if c.rates != nil {
					eta *= c.rates[i]
				}
				velocity = c.Momentum*velocity + gradient
				model -= eta*velocity + eta*c.decay*model
				if j <= i {
					if got := -m.At(i, j) * rate; math.Abs(got-model) > 1e-13 {
						t.Errorf("%+v: step %d in the model after step %d: %v, want %v", c.Training, j, i, got, model)
					}
				}
			}
		}
	}
}

func TestSchedulesOfFrameworks(t *testing.T) {
	near := cmpopts.EquateApprox(0, 1e-15)
	root := math.Sqrt(.5)
	for _, c := range []struct{ got, want []float64 }{
		{mechanism.RatesOf(mechanism.CosineSchedule, 4, 0), []float64{1, (1 + root) / 2, .5, (1 - root) / 2}},
		{mechanism.RatesOf(mechanism.WarmupCosineSchedule, 6, 2), []float64{0, .5, 1, (1 + root) / 2, .5, (1 - root) / 2}},
		{mechanism.RatesOf(mechanism.LinearSchedule, 4, 0), []float64{1, .75, .5, .25}},
	} {
		if d := cmp.Diff(c.want, c.got, near); d != "" {
			t.Error(d)
		}
	}
	for _, name := range mechanism.Schedules {
		p := mechanism.Params{Kind: mechanism.KindIdentity, Steps: 40, Training: mechanism.Training{Schedule: name, Memory: 20}}
		a := must.Get(p.Problem(nil))(t).Workload
		if (a.LearningRates == nil) != (name == mechanism.ConstantSchedule) || a.IsToeplitz() != (name == mechanism.ConstantSchedule) {
			t.Errorf("%s: %v", name, a.LearningRates)
		}
	}
}

// TestScheduleFromFile: learning rates of a file count relative to the largest, and their number is
// that of the steps.
func TestScheduleFromFile(t *testing.T) {
	p := mechanism.Params{Kind: mechanism.KindBSR, Steps: 4, Bands: 2, Training: mechanism.Training{Schedule: "rates.json", Momentum: .5}}
	if p.ScheduleFile() != "rates.json" {
		t.Fatal(p.ScheduleFile())
	}
	read := must.Get(mechanism.ReadRates(strings.NewReader("[0, 0.2, 0.1, 0.05]")))(t)
	a := must.Get(p.Problem(read))(t).Workload
	if d := cmp.Diff(&mechanism.Workload{Steps: 4, Momentum: .5, Forgetting: .5, LearningRates: []float64{0, 1, .5, .25}}, a); d != "" {
		t.Error(d)
	}
	p.Steps = 5
	must.Fail(t, "", "must be 4, as the schedule rates.json has")(p.Problem(read))
	must.Fail(t, "a schedule without its file", "must be 0, as the schedule")(p.Problem(nil))
	for _, text := range []string{"[]", "[0, 0]", "[1, -1]", "{}", "[1] 2", `["1"]`} {
		if _, err := mechanism.ReadRates(strings.NewReader(text)); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// TestTrainingRefuses: each field that is wrong, or that the workload has none of, is refused by
// its name.
func TestTrainingRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		mechanism.Training
	}{
		{"optimizer", mechanism.Training{Optimizer: "lion"}},
		{"momentum", mechanism.Training{Momentum: 1}},
		{"momentum", mechanism.Training{Momentum: -.1}},
		{"momentum", mechanism.Training{Momentum: math.NaN()}},
		{"momentum", mechanism.Training{Optimizer: mechanism.Adam}},
		{"memory", mechanism.Training{Memory: .5}},
		{"memory", mechanism.Training{Memory: mechanism.Memory(math.NaN())}},
		{"weight decay", mechanism.Training{WeightDecay: .1}},
		{"weight decay", mechanism.Training{WeightDecay: -.1, LearningRate: .1}},
		{"weight decay", mechanism.Training{WeightDecay: 11, LearningRate: .1}},
		{"learning rate", mechanism.Training{LearningRate: .1}},
		{"learning rate", mechanism.Training{WeightDecay: .1, LearningRate: math.Inf(1)}},
		{"warmup-steps", mechanism.Training{WarmupSteps: 2}},
		{"warmup-steps", mechanism.Training{WarmupSteps: 20, Schedule: mechanism.WarmupCosineSchedule}},
		{"warmup-steps", mechanism.Training{WarmupSteps: -2, Schedule: mechanism.WarmupCosineSchedule}},
	} {
		p := mechanism.Params{Kind: mechanism.KindIdentity, Steps: 20, Training: c.Training}
		var bad *param.Error
		if err := p.Validate(); !errors.As(err, &bad) || bad.Param != c.name {
			t.Errorf("%+v: %v", c.Training, err)
		}
	}
}

// TestMadeFor: two ways to say the same are the same, and every field makes a difference.
func TestMadeFor(t *testing.T) {
	of := func(training mechanism.Training) mechanism.Training {
		return mechanism.Params{Steps: 40, Training: training}.MadeFor()
	}
	same := []mechanism.Training{
		of(mechanism.Training{Optimizer: "sgd"}), of(mechanism.Training{Schedule: "constant"}), of(mechanism.Training{Memory: 20}),
	}
	for _, one := range same {
		if one != same[0] {
			t.Errorf("%+v, want %+v", one, same[0])
		}
	}
	if of(mechanism.Training{}) != of(mechanism.Training{Memory: mechanism.NoForgetting}) {
		t.Error("without a training something is forgotten")
	}
	if of(mechanism.Training{Schedule: "warmup-cosine"}) != of(mechanism.Training{Schedule: "warmup-cosine", WarmupSteps: 4}) {
		t.Error("the usual warm-up is not that of 4 steps")
	}
	for _, other := range []mechanism.Training{
		{Optimizer: "adam"}, {Momentum: .5}, {WeightDecay: .1, LearningRate: .1}, {Schedule: "cosine"}, {Memory: 19}, {Memory: mechanism.NoForgetting}, {Schedule: "file.json"},
	} {
		if of(other) == same[0] {
			t.Errorf("%+v makes no difference", other)
		}
	}
}

// TestStampsOfTraining: a stamp is made for the memory of the whole training.
func TestStampsOfTraining(t *testing.T) {
	p := mechanism.Params{Kind: mechanism.KindBandedToeplitz, Steps: 40, Bands: 4, Stamps: 2, Training: mechanism.Training{Optimizer: mechanism.SGD}}
	given := p
	given.Memory = 20
	short := p
	short.Memory = 10
	made := func(p mechanism.Params) *mechanism.Strategy { return must.Get(p.Make(t.Context(), nil))(t) }
	if !cmp.Equal(made(p), made(given)) || cmp.Equal(made(p), made(short)) {
		t.Error("a stamp is made for another memory")
	}
	p.Schedule = mechanism.CosineSchedule
	if p.Validate() == nil {
		t.Error("stamps with a schedule are accepted")
	}
}

// TestForgetful: a quarter of the steps, or half of a memory that is shorter, in the same training.
func TestForgetful(t *testing.T) {
	for _, c := range []struct {
		p    mechanism.Params
		want mechanism.Memory
	}{
		{mechanism.Params{Steps: 100}, 25},
		{mechanism.Params{Steps: 100, Training: mechanism.Training{Optimizer: mechanism.SGD}}, 25},
		{mechanism.Params{Steps: 100, Training: mechanism.Training{Memory: 20, Schedule: mechanism.CosineSchedule}}, 10},
		{mechanism.Params{Steps: 100, Training: mechanism.Training{Memory: mechanism.NoForgetting}}, 25},
		{mechanism.Params{Steps: 2, Training: mechanism.Training{Memory: 1}}, 1},
	} {
		got := c.p.Forgetful()
		if got.Memory != c.want || got.Momentum != c.p.Momentum || got.Schedule != c.p.Schedule {
			t.Errorf("%+v: %+v, want a memory of %v", c.p, got, c.want)
		}
	}
}
