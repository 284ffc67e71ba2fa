package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"minsep/internal/accounting"
	"minsep/internal/accounting/pld"
	"minsep/internal/inspect"
	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/statistics"
	"minsep/internal/store"
	"minsep/internal/words"
)

// composition is what the flags of compose ask for: an ε at a δ, or a δ at an ε.
type composition struct {
	Delta      float64       `flag:"delta" help:"print the joint epsilon of all trainings at this delta"`   // 0 if it is not given
	Epsilon    float64       `flag:"epsilon" help:"print the joint delta of all trainings at this epsilon"` // NaN if it is not given
	OwnSamples time.Duration `flag:"own-samples" help:"CPU time for fresh samples of certificates that rest on samples, under a key of your own, of all runs together; 0 to recompute nothing"`
	Times      []int         `flag:"times" help:"number of times that each run counts; a list, such as 3,1, has one number for each run"`
}

// together is the JSON output of minsep compose.
type together struct {
	Epsilon    float64    `json:"epsilon"`   // of all trainings together
	Delta      float64    `json:"delta"`     // of all trainings together
	Trainings  int        `json:"trainings"` // number of trainings
	Protected  string     `json:"protected"` // whom the claim protects
	Adjacency  string     `json:"adjacency"`
	Assumes    string     `json:"assumes"`
	Recomputed bool       `json:"recomputed"`      // whether all certificates were
	Basic      *pld.Point `json:"basic,omitempty"` // sums of ε and of δ; nil if that of δ is not below 1
	Runs       []composed `json:"runs"`
	// Statistics are the claims of private statistics in the runs' directories, which count once each.
	Statistics []string `json:"statistics,omitempty"`
	Notes      []string `json:"notes,omitempty"` // on the independence of the runs, see inspect.Apart, and on points that are missing

	events []pld.Step // of all trainings and statistics
}

type composed struct {
	Directory string      `json:"directory"`
	Times     int         `json:"times"`  // how many trainings it stands for
	Points    []pld.Point `json:"points"` // (ε, δ) of its certificate
	// Recomputed says what was recomputed of its certificate; "" if nothing was.
	Recomputed string `json:"recomputed,omitempty"`
}

// apart states the condition that no certificate of a single training can check.
const apart = "the trainings draw their participations independently of each other, each with a run id of its own, and its own noise: trainings with the same batches do not add up"

// mostTrainings bounds the number of trainings that are composed.
const mostTrainings = 1_000_000

func composeCommand(a *app) *cobra.Command {
	q := composition{Epsilon: math.NaN(), OwnSamples: ownSamples, Times: []int{1}}
	c := &cobra.Command{
		Use:   "compose RUN... {--delta D | --epsilon E} [--times N[,N...]]",
		Short: "Add up the privacy of several trainings on the same data",
		Long: `compose computes the joint guarantee of several trainings, such as a sweep of learning rates from which the best model is
kept. It holds against somebody who sees all that they released, and each training may be chosen after a look at the
earlier ones. If a run is proven by its privacy loss distribution, compose takes that distribution;
of any other run it takes every certified point, and every bound that is proven without samples. Points at small epsilon,
as minsep account --also-epsilon 0.1,0.2,0.4 certifies, therefore make many trainings cheap. --times N counts every run N
times; a list such as 3,1 gives each run its own number. It is for trainings that minsep run --again made, or will make, of
one plan.

The joint guarantee protects the unit of the certificates, which must be the same in all. Each certificate is recomputed from
its ledger, with its proofs; those that rest on samples get fresh ones, in 5 s of a processor for all runs together
(--own-samples). With --own-samples 0 certificates are taken as they stand, and the first line says so. The sum of all epsilon and delta, which holds too, is printed beside. Trainings with the
same batches do not add up: two directories of one run id are refused.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := q.check(len(args)); err != nil {
				return err
			}
			t, err := q.compose(cmd.Context(), args)
			if err != nil {
				return err
			}
			return a.print(t, t.write)
		},
	}
	addFlags(c.Flags(), &q)
	c.Flags().Lookup("epsilon").DefValue = "0"
	return c
}

// check reports every fault of the flags, and gives each run its number of times.
func (q *composition) check(runs int) error {
	c := param.Checker{}
	c.Require((q.Delta == 0) != math.IsNaN(q.Epsilon), "delta and epsilon", nil, "exactly one of them must be given")
	c.Require(q.Delta >= 0 && q.Delta < 1, "delta", q.Delta, "must be above 0 and below 1")
	c.Require(!(q.Epsilon < 0) && !math.IsInf(q.Epsilon, 1), "epsilon", q.Epsilon, "must be a finite number, at least 0")
	if len(q.Times) == 1 {
		q.Times = slices.Repeat(q.Times, runs)
	}
	c.Requiref(len(q.Times) == runs, "times", nil, "must be one number, or one for each of the %d runs", runs)
	left := mostTrainings
	for _, n := range q.Times {
		c.Requiref(n >= 1 && n <= left, "times", n, "must be at least 1, and at most %d of all runs together", mostTrainings)
		left -= n
	}
	return c.Err()
}

// compose reads the runs and computes the ε or δ that is asked for. It takes the plain sums instead if
// they are smaller.
func (q *composition) compose(ctx context.Context, dirs []string) (*together, error) {
	t := &together{Assumes: apart, Recomputed: q.OwnSamples > 0}
	for _, n := range q.Times {
		t.Trainings += n
	}
	// Before any arithmetic: trainings with the same batches or noise have no joint guarantee,
	// however small their own ε are.
	var err error
	if t.Notes, err = inspect.Apart(ctx, dirs, t.Trainings); err != nil {
		return nil, err
	}
	var sum pld.Point
	for i, dir := range dirs {
		if err := t.add(ctx, dir, q.Times[i], q.OwnSamples.Seconds()/float64(len(dirs)), &sum); err != nil {
			return nil, err
		}
	}
	c, err := pld.Compose(t.events, pld.Options{})
	if err != nil {
		return nil, err
	}
	t.Epsilon, t.Delta = q.Epsilon, q.Delta
	if q.Delta > 0 {
		t.Epsilon, err = c.Epsilon(q.Delta)
	} else {
		t.Delta, err = c.Delta(q.Epsilon)
	}
	if err != nil {
		return nil, err
	}
	if sum.Delta < 1 {
		t.Basic = &sum
	}
	if sum.Epsilon <= t.Epsilon && sum.Delta <= t.Delta { // the composition rounds losses up, the sums do not
		if q.Delta > 0 {
			t.Epsilon = sum.Epsilon
		} else {
			t.Delta = sum.Delta
		}
	}
	switch {
	case math.IsInf(t.Epsilon, 1):
		return nil, t.tooSmall(q.Delta)
	case t.Delta >= 1:
		return nil, param.Fault("epsilon", q.Epsilon, "has no delta below 1: give a larger epsilon")
	}
	return t, nil
}

// add reads the certificate of a run, and recomputes it in some seconds of processors for samples; in
// none it takes it as it stands. All runs must protect the same unit under the same adjacency: δ of
// owners and δ of examples do not add up. It adds the run's own ε and δ to sum.
func (t *together) add(ctx context.Context, dir string, times int, seconds float64, sum *pld.Point) error {
	refused := func(rule string) error { return &param.Error{Param: "run directory", Value: dir, Rule: rule} }
	c, err := stages.ReadCertificate(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := store.Stat(ctx, dir); errors.Is(err, fs.ErrNotExist) {
			return refused("does not exist: name a run directory, as minsep run makes")
		}
		return refused("must hold " + manifest.CertificateFile + ": minsep account makes one, and minsep run makes it from a plan")
	case err != nil:
		return err
	case c.Status != accounting.Verified:
		return refused(fmt.Sprintf("must have a certificate that is verified: its status is %q", c.Status))
	}
	if t.Runs == nil {
		t.Protected, t.Adjacency = c.Protected(), c.Adjacency
	}
	if c.Protected() != t.Protected || c.Adjacency != t.Adjacency {
		return refused(fmt.Sprintf(
			"its certificate protects %s (%s), the certificate of %s protects %s (%s): all must protect the same; certify all of them for one unit",
			c.Protected(),
			c.Adjacency,
			t.Runs[0].Directory,
			t.Protected,
			t.Adjacency,
		))
	}
	of := composed{Directory: dir, Times: times}
	_, err = store.Stat(ctx, store.Join(dir, manifest.LedgerFolder))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Recomputed = false
		t.Notes = append(
			t.Notes,
			dir+" has no ledger, so nobody can check its certificate, and compose takes it on trust: put the folder back; minsep inspect asks for it too",
		)
	case seconds == 0:
		err = stages.CheckClaim(ctx, dir)
		if err != nil {
			return err
		}
	default:
		judged, err := inspect.Claim(ctx, dir, inspect.Options{OwnSamples: seconds})
		if err != nil {
			return err
		}
		if err := judged.Err(); err != nil {
			return fmt.Errorf("%s: %s: %w", dir, judged.Verdict, err)
		}
		of.Recomputed = judged.Recomputed
	}
	for _, p := range c.Guarantee() {
		of.Points = append(of.Points, pld.Point(p))
	}
	t.Runs = append(t.Runs, of)
	first := of.Points[0]
	sum.Epsilon += float64(times) * first.Epsilon
	sum.Delta += float64(times) * first.Delta
	events, err := eventsOf(c, of.Points)
	if err != nil {
		return err
	}
	if _, points := events[0].Event.(pld.Points); points && len(of.Points) == 1 && t.Trainings > 1 && first.Epsilon > 0 {
		t.Notes = append(t.Notes, dir+" is certified at one epsilon only: its trainings add up to less if parts of it, such as a half, a quarter and an eighth, are certified too, which takes no more noise: minsep account --also-epsilon, or privacy.also_epsilon in a plan")
	}
	for _, event := range events {
		event.Count *= times
		t.events = append(t.events, event)
	}
	released, err := statistics.All(ctx, dir)
	for _, r := range released {
		if c.Run.MaxExamplesPerOwner > r.MaxExamplesPerOwner {
			return param.Fault("statistics", r.Name,
				"protect an owner with at most %d examples, and the certificate of %s one with more: they are of another table", r.MaxExamplesPerOwner, dir)
		}
		sum.Epsilon += r.Epsilon
		t.events = append(t.events, pld.Step{Event: pld.Points{{Epsilon: r.Epsilon}}, Count: 1})
		t.Statistics = append(t.Statistics, store.Join(dir, manifest.StatisticsFolder, r.Name)+": "+r.Claim())
	}
	return err
}

// provenAt are multiples of a certificate's ε. If samples decided the claim and a proof without
// samples is known as well, δ is proven at these ε too: the composition of many trainings depends
// on δ at small ε.
var provenAt = []float64{0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.2, 1.5, 2}

// eventsOf returns the events of a training: the privacy events that prove its certificate or, if the
// proof is another one, its points: those that are certified and those that need no samples. The
// latter are not known if batches are cut: the claim's own proof then adds a cost for the cut to δ.
func eventsOf(c *accounting.Certificate, points pld.Points) ([]pld.Step, error) {
	if c.Method == accounting.PLD || c.Method == accounting.ClosedForm {
		events, err := c.Run.Events(c.NoiseMultiplier)
		// The noise of a claim in closed form may be too small for events.
		if err == nil || !errors.Is(err, accounting.ErrNoProof) && !errors.As(err, new(*param.Error)) {
			return events, err
		}
	}
	points = slices.Clone(points)
	for _, part := range provenAt {
		epsilon := part * c.Epsilon
		pq, qp, err := c.Run.Prove(c.NoiseMultiplier, epsilon)
		if errors.Is(err, accounting.ErrNoProof) || c.Run.Sampler.Truncation != nil {
			break
		}
		if err != nil {
			return nil, err
		}
		points = append(points, pld.Point{Epsilon: epsilon, Delta: min(1, max(pq, qp)*(1+1e-8))})
	}
	return []pld.Step{{Event: points, Count: 1}}, nil
}

// tooSmall returns the error for a δ at which no ε is finite. Either it is below the δ that the
// trainings' own points leave at every ε, or below the tail of the events' losses that the
// composition cuts off.
func (t *together) tooSmall(delta float64) error {
	kept := 1.0 // probability that no training's δ event happens
	for _, event := range t.events {
		if points, is := event.Event.(pld.Points); is {
			least := slices.MinFunc(points, func(a, b pld.Point) int { return cmp.Compare(a.Delta, b.Delta) })
			kept *= math.Pow(1-least.Delta, float64(event.Count))
		}
	}
	if 1-kept < delta {
		return param.Fault("delta", delta,
			"is too small for %d trainings: the tails that are cut off their privacy losses add up to more; give a larger delta", t.Trainings)
	}
	return param.Fault("delta", delta,
		"must be above %.3g, to which the smallest delta of the trainings add up: give a larger delta, or certify each training with a smaller one, or also at a larger epsilon (account --also-epsilon)", 1-kept)
}

func (t *together) write(w io.Writer) {
	how := "recomputed"
	if !t.Recomputed {
		how = "not recomputed"
	}
	if t.Statistics != nil {
		how += ", claims of statistics taken as they are stated"
	}
	fmt.Fprintf(
		w,
		"(ε, δ) = (%s, %s) for %s together, for %s; certificates %s\n",
		ceiled(t.Epsilon),
		ceiled(t.Delta),
		words.Count(t.Trainings, "training"),
		t.Protected,
		how,
	)
	rows := newTable(w)
	rows.row("adjacency\t%s", t.Adjacency)
	if t.Basic != nil {
		rows.row("sums\t(%s, %s), which holds too", ceiled(t.Basic.Epsilon), ceiled(t.Basic.Delta))
	}
	for _, r := range t.Runs {
		text := r.Directory
		if r.Times > 1 {
			text += fmt.Sprintf(", %d times", r.Times)
		}
		text += ":"
		for _, p := range r.Points {
			text += fmt.Sprintf(" (%g, %g)", p.Epsilon, p.Delta)
		}
		if r.Recomputed != "" {
			text += "; " + r.Recomputed
		}
		rows.row("run\t%s", text)
	}
	for _, r := range t.Statistics {
		rows.row("statistics\t%s", r)
	}
	for _, note := range t.Notes {
		rows.row("note\t%s", note)
	}
	rows.row("assumes\t%s", t.Assumes)
	rows.Flush()
	fmt.Fprintln(
		w,
		"It holds against whoever sees all that these trainings released. A training that is not listed counts too if anybody looked at anything of it.",
	)
}

// ceiled formats x with four significant digits, rounded up so that a printed ε or δ still holds.
func ceiled(x float64) string {
	if x <= 0 {
		return "0"
	}
	return accounting.RoundedUp(x, 4)
}
