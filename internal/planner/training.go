package planner

import (
	"fmt"

	"minsep/mechanism"
)

// How a model is trained decides how long noise stays in it. How long a model remembers a step is
// not known before, so a ranking by one memory is looked at by a shorter one too: see
// [mechanism.Params.Forgetful].

// AssumeTraining gives a request without a training the usual one: SGD with a constant learning rate,
// no momentum, and a memory of half of the steps.
func (r *Request) AssumeTraining() {
	if r.Workload.Training == (mechanism.Training{}) {
		r.Workload.Optimizer, r.Assumed = mechanism.SGD, true
	}
}

// AssumeObjective gives a request without an objective the usual one: RMSE, or LateSE where
// learning rates follow a schedule, as trainings with cosine rates order mechanisms by it: better
// than by all models, while the first rows by the last model alone trained worse than DP-SGD.
func (r *Request) AssumeObjective() {
	if r.Objective != "" {
		return
	}
	r.Objective = RMSE
	if r.measured(mechanism.KindIdentity).MadeFor().Schedule != mechanism.ConstantSchedule {
		r.Objective = LateSE
	}
}

// training says in words how the model is trained.
func (r *Request) training() string {
	text := "for " + r.measured(mechanism.KindIdentity).MadeFor().Describe(r.Steps)
	if r.Assumed {
		text += ": assumed; --optimizer, --momentum, --schedule and --memory say how you train"
	}
	return text
}

// errorOf says in words in which models the noise is measured.
func (r *Request) errorOf() string {
	switch r.Objective {
	case LastSE:
		return "the last model of the training"
	case LateSE:
		return "the models of the training in the second half of the steps"
	}
	return "the models of the training"
}

// shorter has the workload of the request with a shorter memory.
func (r *Request) shorter() mechanism.Params {
	return r.measured(mechanism.KindIdentity).Forgetful()
}

// forAdam says how far the ranking holds for Adam.
const forAdam = "With Adam no ranking was found to hold. At one learning rate the column step ranks, the least first: prefer few bands, and take the learning rate times step (docs/python.md, the noise of one step)."

// worseThanDPSGD says of the first row that it may train worse than DP-SGD, and which row does not;
// "" if it does not.
func worseThanDPSGD(rows []*Row) string {
	first := rows[0]
	if !first.MayBeWorse {
		return ""
	}
	text := "The first may train worse than DP-SGD, marked !: a model that forgets sooner has more noise with it."
	for _, row := range rows[1:] {
		if row.Refused == "" && !row.MayBeWorse {
			return fmt.Sprintf("%s Row %d, %s, is the first that is not.", text, row.Rank, row.Name())
		}
	}
	return text
}

// marked explains the mark of rows that may be worse than DP-SGD.
func marked(out *Result) string {
	return fmt.Sprintf(
		"! has more noise than DP-SGD with the same batch size, by this training or by one with a memory of %.4g steps: it may train worse.",
		float64(out.ShorterMemory),
	)
}
