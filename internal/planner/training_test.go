package planner

import (
	"math"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/mechanism"
)

// TestBesideDPSGD compares what rows have beside DP-SGD with the definitions, for a training in
// which wide strategies are worse than independent noise.
func TestBesideDPSGD(t *testing.T) {
	r := small()
	r.Kinds = []string{"identity", "banded-toeplitz"}
	r.Workload = mechanism.Params{Training: mechanism.Training{Momentum: .5, Memory: 4}}
	out := planned(t, r)
	if out.ShorterMemory != 2 || !strings.Contains(out.Training, "SGD with momentum 0.5") || strings.Contains(out.Training, "assumed") {
		t.Errorf("memory %v, %q", out.ShorterMemory, out.Training)
	}
	problem := func(memory mechanism.Memory) *mechanism.Workload {
		return &mechanism.Workload{Steps: r.Steps, Momentum: .5, Forgetting: 1 / float64(memory)}
	}
	errorOf := func(s *mechanism.Strategy, memory mechanism.Memory) float64 {
		e := must.Get(s.Error(problem(memory)))(t)
		return e.RMSE
	}
	identity, worse := mechanism.Identity(r.Steps), 0
	for _, row := range out.Rows {
		if row.Refused != "" {
			continue
		}
		s := must.Get(row.Strategy.Make(t.Context(), nil))(t)
		sigma := must.Get(DPSGD{Epsilon: r.Epsilon, Delta: r.Delta, Steps: r.Steps, Units: 320, MaxPerOwner: 1}.NoiseMultiplier(row.BatchSize))(t)
		near := func(what string, got, want, within float64) {
			if math.Abs(got/want-1) > within {
				t.Errorf("%s: %s %g, want %g", row.Name(), what, got, want)
			}
		}
		step := must.Get(s.StepNoise())(t)
		near("a memory of 4", row.Relative, row.Noise.Multiplier*errorOf(s, 4)/row.BatchSize, 1e-9)
		near("a memory of 2", row.Forgetful, row.Noise.Multiplier*errorOf(s, 2)/row.BatchSize, 1e-9)
		near("noise of a step", row.StepNoise, row.Noise.Multiplier*step/sigma, 2e-3)
		ratio := max(row.Relative/errorOf(identity, 4), row.Forgetful/errorOf(identity, 2)) * row.BatchSize / sigma
		if want := ratio > 1; row.MayBeWorse != want && math.Abs(ratio-1) > 5e-3 {
			t.Errorf("%s: may be worse than DP-SGD: %v, with %g times its noise", row.Name(), row.MayBeWorse, ratio)
		}
		if row.MayBeWorse {
			worse++
		}
		if row.Scheme.Scheme == "poisson" && row.MayBeWorse {
			t.Error("DP-SGD is worse than DP-SGD")
		}
	}
	if first := out.Rows[0]; worse == 0 || worse == len(out.Rows) || first.MayBeWorse != strings.Contains(strings.Join(out.Why, " "), "may train worse") {
		t.Errorf("%d of %d rows may be worse; %q", worse, len(out.Rows), out.Why)
	}
	if text := strings.Join(out.Note, " "); !strings.Contains(text, "! has more noise than DP-SGD") || !strings.Contains(text, "memory of 2 steps") {
		t.Errorf("%q", text)
	}
}

// TestWorseThanDPSGD: of a first row that may be worse, the words name the best that is not.
func TestWorseThanDPSGD(t *testing.T) {
	rows := []*Row{{MayBeWorse: true, Rank: 1}, {MayBeWorse: true, Rank: 2}, {Rank: 3}}
	rows[2].Scheme.Scheme, rows[2].Strategy.Kind = "poisson", "identity"
	if text := worseThanDPSGD(rows); !strings.Contains(text, "Row 3, poisson, identity, is the first that is not") {
		t.Errorf("%q", text)
	}
	if text := worseThanDPSGD(rows[:2]); text == "" || strings.Contains(text, "Row") {
		t.Errorf("%q", text)
	}
	if text := worseThanDPSGD(rows[2:]); text != "" {
		t.Errorf("%q", text)
	}
}

// TestAssumeTraining: where nobody says how a model is trained, a plan assumes a memory of half of
// the steps, and says so; where anybody does, it assumes nothing.
func TestAssumeTraining(t *testing.T) {
	r := small()
	r.AssumeTraining()
	if !r.Assumed || !strings.Contains(r.training(), "a memory of 16 steps: assumed") {
		t.Errorf("%+v: %q", r.Workload, r.training())
	}
	for want, p := range map[string]mechanism.Params{
		"nothing forgotten":      {Training: mechanism.Training{Memory: mechanism.NoForgetting}},
		"momentum 0.9":           {Training: mechanism.Training{Momentum: .9}},
		"a memory of 3 steps":    {Training: mechanism.Training{Memory: 3}},
		"cosine learning rates ": {Training: mechanism.Training{Schedule: mechanism.CosineSchedule}},
	} {
		r := small()
		r.Workload = p
		r.AssumeTraining()
		if text := r.training(); r.Assumed || !strings.Contains(text, want) {
			t.Errorf("%q, want %q", text, want)
		}
	}
}

// TestObjective: with a schedule of learning rates a plan ranks by the noise of the models of the
// second half, each by a row of the workload times the inverse of the strategy. Else it ranks by
// all models, and always by what was asked for.
func TestObjective(t *testing.T) {
	cosine := mechanism.Params{Training: mechanism.Training{Schedule: mechanism.CosineSchedule, Momentum: .5}}
	for _, c := range []struct {
		workload    mechanism.Params
		given, want string
	}{
		{mechanism.Params{}, "", RMSE}, {mechanism.Params{Training: mechanism.Training{Memory: mechanism.NoForgetting}}, "", RMSE},
		{mechanism.Params{Training: mechanism.Training{Schedule: mechanism.ConstantSchedule}}, "", RMSE},
		{cosine, "", LateSE}, {cosine, RMSE, RMSE}, {cosine, MaxSE, MaxSE}, {mechanism.Params{}, LastSE, LastSE},
	} {
		r := small()
		r.Workload, r.Objective = c.workload, c.given
		r.AssumeTraining()
		if r.AssumeObjective(); r.Objective != c.want {
			t.Errorf("%+v with %q: %q, want %q", c.workload, c.given, r.Objective, c.want)
		}
	}
	for objective, first := range map[string]int{"": small().Steps / 2, LastSE: small().Steps - 1} {
		r := small()
		r.Workload, r.Objective, r.Schemes = cosine, objective, []string{"cyclic-poisson", "poisson"}
		r.AssumeObjective()
		out := must.Get(r.Plan(t.Context()))(t)
		for _, row := range out.Rows {
			if row.Refused != "" {
				continue
			}
			column := []float64{1}
			if row.Strategy.Kind != mechanism.KindIdentity {
				s := must.Get(row.Strategy.Make(t.Context(), nil))(t)
				column = s.Toeplitz
			}
			mean := 0.0
			for end := first; end < r.Steps; end++ {
				mean += modelNoise(r.Steps, end, column) / float64(r.Steps-first)
			}
			if want := row.Noise.Multiplier * math.Sqrt(mean) / row.BatchSize; math.Abs(row.Relative/want-1) > 1e-9 {
				t.Errorf("%q, %s: %g, want %g", objective, row.Name(), row.Relative, want)
			}
		}
		of := "least noise (latese in the models of the training in the second half of the steps)"
		if objective == LastSE {
			of = "least noise (lastse in the last model of the training)"
		}
		if why := strings.Join(out.Why, " "); !strings.Contains(why, of) {
			t.Error(why)
		}
	}
}

// modelNoise is the variance of the model after a step, by the recursion of F1.1 with cosine rates,
// momentum .5 and a memory of half of n steps, at a noise multiplier and a batch size of 1.
func modelNoise(n, end int, column []float64) (squares float64) {
	kappa := 2 / float64(n)
	row := make([]float64, end+1)
	for j := range row {
		velocity, model := 0.0, 0.0
		for i := j; i <= end; i++ {
			velocity = .5*velocity - kappa*.5*model
			if i == j {
				velocity++
			}
			model += (1 + math.Cos(math.Pi*float64(i)/float64(n))) / 2 * velocity
		}
		row[j] = model
	}
	for j := end; j >= 0; j-- { // x with xC = row, from the last entry on
		for k := 1; k < len(column) && j+k <= end; k++ {
			row[j] -= column[k] * row[j+k]
		}
		row[j] /= column[0]
		squares += row[j] * row[j]
	}
	return squares
}
