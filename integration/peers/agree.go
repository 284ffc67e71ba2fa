package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"

	"minsep/internal/accounting/pld"
	"minsep/internal/montecarlo"
	"minsep/internal/words"
	"minsep/mechanism"
)

// question is a case that both sides answer. It goes to the peer as JSON; which fields it has
// depends on its kind.
type question struct {
	Kind     string      `json:"kind"`
	Steps    int         `json:"steps,omitempty"`
	Prob     float64     `json:"prob,omitempty"`
	Sigma    float64     `json:"sigma,omitempty"`
	Delta    float64     `json:"delta,omitempty"`
	Examples int         `json:"examples,omitempty"` // of an owner, or of the data where batches are cut
	Max      int         `json:"max,omitempty"`      // the largest batch, or the most participations
	MinSep   int         `json:"min_sep,omitempty"`
	Size     int         `json:"size,omitempty"` // bands, buffers or participations
	Error    string      `json:"error,omitempty"`
	Warm     bool        `json:"warm,omitempty"`
	Column   []float64   `json:"column,omitempty"`
	Matrix   [][]float64 `json:"matrix,omitempty"` // lower triangular, rows
	Y        []float64   `json:"y,omitempty"`
}

// answer says how minsep's figure stands to the peer's.
type answer struct {
	ratio float64 // of minsep's figure and the peer's
	wrong string  // the rule of its kind that does not hold; ""
}

// topic is a kind of questions: how one is asked, how the peer's numbers are judged, and the
// rule that holds.
type topic struct {
	kind, name, rule string
	count            int
	ask              func(r *rand.Rand, q *question)
	judge            func(q question, theirs []float64) (answer, error)
}

// logUniform is between low and high.
func logUniform(r *rand.Rand, low, high float64) float64 {
	return low * math.Exp(r.Float64()*math.Log(high/low))
}

// sampled asks for the privacy of steps of Poisson sampling.
func sampled(r *rand.Rand, q *question) {
	q.Prob, q.Sigma, q.Steps, q.Delta = logUniform(r, 1e-3, 1), logUniform(r, 0.5, 8), int(logUniform(r, 1, 1000)), logUniform(r, 1e-9, 1e-3)
}

// within judges a bracket of ε: the peer's is [optimistic, pessimistic].
func within(c *pld.Composition, err error, q question, theirs []float64) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	b, err := c.Epsilon(q.Delta)
	if err != nil {
		return answer{}, err
	}
	a := answer{ratio: (b.Upper + 1e-9) / (theirs[1] + 1e-9)}
	switch low, high := theirs[0], theirs[1]; {
	case b.Upper < low*(1-1e-9)-1e-9:
		a.wrong = fmt.Sprintf("the claim, %.9g, is below the peer's lower bound, %.9g", b.Upper, low)
	case b.Lower > high*(1+1e-9)+1e-9:
		a.wrong = fmt.Sprintf("the lower bound, %.9g, is above the peer's upper bound, %.9g", b.Lower, high)
	case b.Lower > theirs[len(theirs)-1]*(1+1e-9):
		a.wrong = fmt.Sprintf("the lower bound, %.9g, is above the peer's by Rényi divergences, %.9g", b.Lower, theirs[len(theirs)-1])
	}
	return a, nil
}

func composed(q question, examples int, cut *pld.Truncation) (*pld.Composition, error) {
	return pld.Compose([]pld.Step{{Event: pld.Event{Prob: q.Prob, NoiseMultiplier: q.Sigma, Sensitivity: 1, Examples: examples, Truncation: cut}, Count: q.Steps}}, pld.Options{})
}

// topics are all kinds of questions.
func topics() []topic {
	return append(privacyTopics(), append(lossTopics(), strategyTopics()...)...)
}

func privacyTopics() []topic {
	inside := "claim ≥ lower bound of the peer, lower bound ≤ claim of the peer"
	return []topic{
		{"poisson", "ε of DP-SGD, PLD and RDP", inside, 80, sampled, func(q question, theirs []float64) (answer, error) {
			c, err := composed(q, 1, nil)
			return within(c, err, q, theirs)
		}},
		{"owner", "ε of owners of 2 to 5 examples, PLD", inside, 30, func(r *rand.Rand, q *question) {
			sampled(r, q)
			q.Examples, q.Sigma, q.Prob = 2+r.IntN(4), 2*q.Sigma, min(q.Prob, 0.5)
		}, func(q question, theirs []float64) (answer, error) {
			c, err := composed(q, q.Examples, nil)
			return within(c, err, q, theirs)
		}},
		{"cyclic", "ε of BandMF with cyclic Poisson sampling, PLD", inside, 40, func(r *rand.Rand, q *question) {
			sampled(r, q)
			q.MinSep = 1 + r.IntN(32)
		}, func(q question, theirs []float64) (answer, error) {
			c, err := pld.CyclicPoisson{Prob: q.Prob, Steps: q.Steps, MinSep: q.MinSep, NoiseMultiplier: q.Sigma}.Compose(pld.Options{})
			return within(c, err, q, theirs)
		}},
		{"cut", "ε of DP-SGD with batches that are cut, PLD", "none: other analyses", 30, func(r *rand.Rand, q *question) {
			sampled(r, q)
			q.Prob, q.Examples = min(q.Prob, 0.3), 50+r.IntN(500)
			mean := q.Prob * float64(q.Examples)
			q.Max = int(math.Ceil(mean + 4*r.Float64()*math.Sqrt(mean+1)))
		}, func(q question, theirs []float64) (answer, error) {
			c, err := composed(q, 1, &pld.Truncation{MaxBatchSize: q.Max, Others: q.Examples - 1})
			if err != nil {
				return answer{}, err
			}
			b, err := c.Epsilon(q.Delta)
			return answer{ratio: (b.Upper + 1e-9) / (theirs[1] + 1e-9)}, err
		}},
	}
}

// falling is a non-negative first column that does not rise.
func falling(r *rand.Rand, bands int) []float64 {
	c := []float64{0.2 + 2*r.Float64()}
	for len(c) < bands {
		c = append(c, c[len(c)-1]*(0.2+0.8*r.Float64()))
	}
	return c
}

func lossTopics() []topic {
	var all []topic
	for _, s := range []struct {
		kind, scheme, name, rule  string
		least, mostBands, mostSep int
		times                     int
	}{
		{"b-min-sep", "b_min_sep", "privacy loss of an output, b-min-sep, one or two bands", "equal to 1e-9", 1, 2, 8, 12},
		{"b-min-sep", "b_min_sep", "privacy loss of an output, b-min-sep, three bands and more", "minsep's equal to the sum over all participations, to 1e-9", 3, 8, 8, 4},
		{"balls-in-bins", "balls_in_bins", "privacy loss of an output, balls-in-bins", "equal to 1e-9", 1, 8, 8, 12},
		{"secret-parts", "cyclic_poisson_random_shift", "privacy loss of an output, cyclic Poisson with secret parts", "equal to 1e-9", 1, 8, 8, 12},
	} {
		all = append(all, topic{s.kind, s.name, s.rule, 100, func(r *rand.Rand, q *question) {
			q.MinSep = s.least + r.IntN(s.mostSep-s.least+1)
			q.Steps = q.MinSep * (1 + r.IntN(s.times))
			q.Prob, q.Sigma, q.Warm = logUniform(r, 1e-3, 0.99), logUniform(r, 0.3, 4), r.IntN(2) == 0
			q.Column = falling(r, s.least+r.IntN(min(s.mostBands, q.MinSep)-s.least+1))
			for range q.Steps {
				q.Y = append(q.Y, 2*r.NormFloat64()*q.Sigma+r.Float64())
			}
		}, func(q question, theirs []float64) (answer, error) {
			start := "cold"
			if q.Warm {
				start = "warm"
			}
			text, err := json.Marshal(map[string]any{"cases": []any{map[string]any{"scheme": s.scheme, "start": start, "n": q.Steps, "b": q.MinSep, "p": q.Prob, "p_cyclic": q.Prob,
				"sigma": q.Sigma, "c": q.Column, "y": [][]float64{q.Y}}}})
			if err == nil {
				text, err = montecarlo.EvaluateCases(text)
			}
			var found struct {
				Cases []struct {
					Loss []float64 `json:"log_loss"`
				} `json:"cases"`
			}
			if err == nil {
				err = json.Unmarshal(text, &found)
			}
			if err != nil {
				return answer{}, err
			}
			mine := found.Cases[0].Loss[0]
			a, right := answer{ratio: mine / theirs[0]}, theirs[len(theirs)-1]
			if math.Abs(mine-right) > 1e-9*(1+math.Abs(mine)) {
				a.wrong = fmt.Sprintf("%.15g, should be %.15g", mine, right)
			}
			return a, nil
		}})
	}
	return all
}

// agree asks the peer all questions of the topics with pattern in their name, and prints a table
// and the disagreements.
func agree(python, pattern string, seed uint64) error {
	fmt.Println("| figure | cases | holds | minsep's over the peer's |\n|---|---|---|---|")
	broken := 0
	for _, t := range topics() {
		if !strings.Contains(t.name, pattern) {
			continue
		}
		r := rand.New(rand.NewPCG(seed, 1))
		list := make([]question, t.count)
		for i := range list {
			list[i].Kind = t.kind
			t.ask(r, &list[i])
		}
		theirs, err := answered(python, list)
		if err != nil {
			return err
		}
		low, high := math.Inf(1), math.Inf(-1)
		for i, q := range list {
			a, err := t.judge(q, theirs[i])
			if err == nil && a.wrong == "" {
				low, high = min(low, a.ratio), max(high, a.ratio)
				continue
			}
			broken++
			text, _ := json.Marshal(q)
			fmt.Fprintf(os.Stderr, "%s: %s %v: %s\n", t.name, a.wrong, err, text)
		}
		fmt.Printf("| %s | %s | %s | %.7g to %.7g |\n", t.name, words.Grouped(int64(t.count)), t.rule, low, high)
	}
	if broken > 0 {
		return fmt.Errorf("%d cases do not agree", broken)
	}
	return nil
}

// answered has the peer's numbers for each question.
func answered(python string, list []question) (numbers [][]float64, err error) {
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	c := exec.Command(python, "-c", agreeScript)
	c.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "JAX_PLATFORMS=cpu", "JAX_ENABLE_X64=1")
	c.Stdin, c.Stderr = strings.NewReader(string(text)), os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", python, err)
	}
	if err := json.Unmarshal(out, &numbers); err != nil {
		return nil, err
	}
	if len(numbers) != len(list) {
		return nil, fmt.Errorf("%s: %d answers to %d questions", python, len(numbers), len(list))
	}
	return numbers, nil
}

// prefix is the problem of a question about a strategy.
func (q question) prefix() mechanism.Problem {
	p := mechanism.Problem{Workload: mechanism.Prefix(q.Steps), Objective: q.Error}
	if q.MinSep > 0 {
		p.Participation = mechanism.Participation{MinSep: q.MinSep, MaxParticipations: q.Max}
	}
	return p
}
