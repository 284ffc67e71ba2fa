package mechanism

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"minsep/internal/param"
)

// Optimizers of a training.
const (
	SGD  = "sgd"  // with momentum; weight decay is added to the gradient
	Adam = "adam" // momentum is β₁; weight decay shrinks the model apart from the gradient, as in AdamW
)

// defaultMemory is the part of a training after which a model has forgotten a step, unless said
// otherwise.
const defaultMemory = 0.5

// defaultWarmup is the part of a training that a warm-up takes, unless said otherwise.
const defaultWarmup = 0.1

// AdamMomentum is the usual β₁ of Adam.
const AdamMomentum = 0.9

// Memory is the number of steps after which a model has forgotten a step: 1/κ, at least 1, and +Inf
// for a model that forgets nothing. 0 stands for half of the steps, or for [NoForgetting] if nothing
// else of a [Training] is given. As text and in JSON it is a number or "inf".
type Memory float64

// NoForgetting is the memory of a model that forgets nothing: sums over all steps.
var NoForgetting = Memory(math.Inf(1))

const noForgettingText = "inf"

const memoryRule = `a number of steps of at least 1, or "inf"`

var errMemory = errors.New("must be " + memoryRule)

// String returns the number, or "inf".
func (m Memory) String() string {
	if m == NoForgetting {
		return noForgettingText
	}
	return strconv.FormatFloat(float64(m), 'g', -1, 64)
}

// Set reads the text of a flag.
func (m *Memory) Set(text string) error {
	if text == noForgettingText {
		*m = NoForgetting
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 1) || math.IsInf(v, 0) {
		return errMemory
	}
	*m = Memory(v)
	return nil
}

// Type returns the value's name in the help of flags.
func (Memory) Type() string { return "steps|inf" }

// Describe returns the rule for a value, in words.
func (Memory) Describe() string { return memoryRule }

// MarshalJSON writes a number, or "inf".
func (m Memory) MarshalJSON() ([]byte, error) {
	if m == NoForgetting {
		return json.Marshal(noForgettingText)
	}
	return json.Marshal(float64(m))
}

// UnmarshalJSON reads a number, or "inf".
func (m *Memory) UnmarshalJSON(b []byte) error {
	if string(b) == `"`+noForgettingText+`"` {
		*m = NoForgetting
		return nil
	}
	var v float64
	if json.Unmarshal(b, &v) != nil || !(v >= 1) {
		return errMemory
	}
	*m = Memory(v)
	return nil
}

// Training says how a model is trained, as far as that decides the effect of the noise on the
// model. It is a part of [Params], and makes the training workload (F1.1): the recursion of the
// optimizer, with a model that the data pull back to their optimum, so that it forgets the noise of
// old steps.
type Training struct {
	Optimizer    string  `json:"optimizer,omitempty" flag:"optimizer" help:"optimizer of the training: sgd or adam (default sgd)"`              // sgd (the default) or adam
	Momentum     float64 `json:"momentum,omitempty" strict:"zero" flag:"momentum" help:"momentum, or Adam's β₁ (default 0.9 for adam, else 0)"` // in [0, 1), above 0 for adam: its β₁
	WeightDecay  float64 `json:"weight_decay,omitempty" strict:"zero" flag:"weight-decay" help:"weight decay, as it is given to the optimizer of the framework; needs --learning-rate"`
	LearningRate float64 `json:"learning_rate,omitempty" flag:"learning-rate" help:"largest learning rate of the schedule; matters with --weight-decay only"`                                                                         // the largest; above 0, only for WeightDecay; 0: not given
	Schedule     string  `json:"schedule,omitempty" flag:"schedule" help:"schedule of the learning rates: constant, cosine, linear, warmup-cosine, cooldown, linear-decay, or a JSON file with a list of numbers (default constant)"` // constant (the default), another of Schedules, or a file of learning rates
	WarmupSteps  int     `json:"warmup_steps,omitempty" flag:"warmup-steps" help:"for the schedule warmup-cosine: steps of the warm-up (default: a tenth of the steps)"`                                                              // of warmup-cosine, below the steps; 0: a tenth of them
	Memory       Memory  `json:"memory,omitempty" flag:"memory" help:"number of steps M after which the model has forgotten a step: at least 1, or inf (default: half of the steps, or inf if no other flag of a training is given)"` // 0: half of the steps, or NoForgetting if nothing of Training is given
}

// schedule is t.Schedule or its default.
func (t Training) schedule() string {
	if t.Schedule == "" {
		return ConstantSchedule
	}
	return t.Schedule
}

// hasNamedSchedule reports whether the schedule has a name and does not come from a file.
func (t Training) hasNamedSchedule() bool { return slices.Contains(Schedules, t.schedule()) }

// memory is t.Memory or its default.
func (t Training) memory(steps int) Memory {
	switch {
	case t == Training{}:
		return NoForgetting
	case t.Memory == 0:
		return Memory(max(1, defaultMemory*float64(steps)))
	}
	return t.Memory
}

// warmup is t.WarmupSteps or its default.
func (t Training) warmup(steps int) int {
	if t.WarmupSteps == 0 {
		return int(math.Ceil(defaultWarmup * float64(steps)))
	}
	return t.WarmupSteps
}

// Describe describes a training of the given number of steps in words, such as "SGD with momentum
// 0.9, cosine learning rates and a memory of 500 steps".
func (t Training) Describe(steps int) string {
	text := "SGD"
	if t.Optimizer == Adam {
		text = "Adam"
	}
	text += fmt.Sprintf(" with momentum %g", t.Momentum)
	if t.hasNamedSchedule() {
		text += fmt.Sprintf(", %s learning rates", t.schedule())
	} else {
		text += fmt.Sprintf(", the learning rates of %s", t.Schedule)
	}
	if t.schedule() == WarmupCosineSchedule {
		text += fmt.Sprintf(" after %d steps of warm-up", t.warmup(steps))
	}
	if t.WeightDecay > 0 {
		text += fmt.Sprintf(", weight decay %g at the learning rate %g", t.WeightDecay, t.LearningRate)
	}
	if m := t.memory(steps); m != NoForgetting {
		return text + fmt.Sprintf(" and a memory of %v steps", m)
	}
	return text + ", and nothing forgotten"
}

// check adds the faults of a training of the given number of steps.
func (t Training) check(steps int, c *param.Checker) {
	c.Require(
		t.Optimizer == "" || t.Optimizer == SGD || t.Optimizer == Adam,
		"optimizer",
		t.Optimizer,
		"must be sgd or adam",
	)
	c.Require(t.Momentum >= 0 && t.Momentum < 1, "momentum", t.Momentum, "must be in [0, 1)")
	c.Requiref(
		t.Optimizer != Adam || t.Momentum != 0,
		"momentum",
		t.Momentum,
		"must be above 0 for adam: it is its β₁, such as %g", AdamMomentum,
	)
	c.Require(t.Memory == 0 || t.Memory >= 1, "memory", t.Memory, errMemory.Error())
	c.Require(
		t.WeightDecay >= 0 && !math.IsInf(t.WeightDecay, 1),
		"weight decay",
		t.WeightDecay,
		"must be a finite number of at least 0",
	)
	c.Require(
		t.LearningRate >= 0 && !math.IsInf(t.LearningRate, 1),
		"learning rate",
		t.LearningRate,
		"must be a finite number above 0",
	)
	c.Require(
		t.LearningRate == 0 || t.WeightDecay > 0,
		"learning rate",
		t.LearningRate,
		"matters only for the weight decay: leave it out, or give the weight decay",
	)
	c.Require(
		t.WeightDecay == 0 || t.LearningRate > 0,
		"weight decay",
		t.WeightDecay,
		"needs the learning rate too, the largest of the schedule (--learning-rate, or strategy.learning_rate of a plan): a step takes off the product of both",
	)
	c.Requiref(
		t.WeightDecay*t.LearningRate <= 1,
		"weight decay",
		t.WeightDecay,
		"must be at most %g, one over the learning rate", 1/t.LearningRate,
	)
	t.checkSchedule(steps, c)
}

// checkSchedule adds the faults of the schedule.
func (t Training) checkSchedule(steps int, c *param.Checker) {
	warms := t.schedule() == WarmupCosineSchedule
	c.Require(
		t.WarmupSteps == 0 || warms,
		"warmup-steps",
		t.WarmupSteps,
		"are for the schedule "+WarmupCosineSchedule,
	)
	c.Require(t.WarmupSteps >= 0, "warmup-steps", t.WarmupSteps, "must be at least 1")
	c.Requiref(
		!warms || t.warmup(steps) < steps,
		"warmup-steps",
		t.warmup(steps),
		"must be below the steps, %d", steps,
	)
}

// workload returns the workload of the training. rates come from the schedule's file, and are nil
// if the schedule has a name. Only their ratios matter: the largest counts as 1.
func (t Training) workload(steps int, rates []float64) *Workload {
	if t.hasNamedSchedule() {
		rates = schedule(t.schedule(), steps, t.warmup(steps))
	}
	a := &Workload{Steps: steps, Momentum: t.Momentum, Forgetting: 1 / float64(t.memory(steps))}
	if len(rates) > 0 {
		largest := slices.Max(rates)
		a.LearningRates = make([]float64, len(rates))
		for i, eta := range rates {
			a.LearningRates[i] = eta / largest
		}
	}
	taken := t.WeightDecay * t.LearningRate
	if t.Optimizer == Adam {
		a.Decay = taken
	} else { // in the gradient, so that it goes through the velocity
		a.Forgetting = min(1, a.Forgetting+taken/(1-t.Momentum))
	}
	return a
}
