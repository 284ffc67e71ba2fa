package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
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

// together is the JSON output of minsep compose.
type together struct {
	Epsilon    float64    `json:"epsilon"`   // of all trainings together
	Delta      float64    `json:"delta"`     // of all trainings together
	Trainings  int        `json:"trainings"` // number of trainings
	Protected  string     `json:"protected"` // whom the claim protects
	Adjacency  string     `json:"adjacency"`
	Assumes    string     `json:"assumes"`
	Recomputed bool       `json:"recomputed"`      // whether all certificates were
	Basic      *basic     `json:"basic,omitempty"` // sums of ε and of δ; nil if the requested δ is below the sum
	Runs       []composed `json:"runs"`
	// Statistics are the claims of private statistics in the runs' directories, which count once each.
	Statistics []string `json:"statistics,omitempty"`
	Notes      []string `json:"notes,omitempty"` // on the independence of the runs, see inspect.Apart, and on points that are missing

	single []composed // runs with a single point in their certificate
}

// apart states the condition that no certificate of a single training can check.
const apart = "the trainings draw their participations independently of each other, each with a run id of its own, and its own noise: trainings with the same batches do not add up"

// mostTrainings bounds the number of trainings that are composed.
const mostTrainings = 1_000_000

// training is what the composition takes of a run: its events, or its points if it has none.
type training struct {
	events []pld.Step
	points pld.Points // at least one
	count  int
}

type basic struct {
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
}

type composed struct {
	Directory string      `json:"directory"`
	Times     int         `json:"times"`  // how many trainings it stands for
	Points    []pld.Point `json:"points"` // (ε, δ) of its certificate
	// Recomputed says what was recomputed of its certificate; "" if nothing was.
	Recomputed string `json:"recomputed,omitempty"`
}

func composeCommand(a *app) *cobra.Command {
	var delta, epsilon float64
	var counts []int
	var own time.Duration
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
			check := param.Checker{}
			byDelta, byEpsilon := cmd.Flags().Changed("delta"), cmd.Flags().Changed("epsilon")
			check.Require(
				byDelta != byEpsilon,
				"delta",
				delta,
				"exactly one of --delta and --epsilon must be given",
			)
			check.Require(!byDelta || delta > 0 && delta < 1, "delta", delta, "must be above 0 and below 1")
			check.Require(
				!byEpsilon || epsilon >= 0 && !math.IsInf(epsilon, 1),
				"epsilon",
				epsilon,
				"must be a finite number, at least 0",
			)
			times := counts
			if len(times) == 1 {
				times = slices.Repeat(times, len(args))
			}
			check.Require(
				len(times) == len(args),
				"times",
				commas(counts),
				fmt.Sprintf("must be one number, or one for each of the %d runs", len(args)),
			)
			trainings := 0
			for _, n := range times {
				check.Require(
					n >= 1 && n <= mostTrainings,
					"times",
					n,
					fmt.Sprintf("must be at least 1 and at most %d", mostTrainings),
				)
				trainings += n
			}
			check.Require(
				trainings <= mostTrainings,
				"times",
				commas(counts),
				fmt.Sprintf("must come to at most %d trainings together", mostTrainings),
			)
			if err := check.Err(); err != nil {
				return err
			}
			if err := mustBeFolders(cmd.Context(), args); err != nil {
				return err
			}
			// Before any arithmetic: trainings with the same batches or noise have no joint guarantee,
			// however small their own ε are.
			notes, err := inspect.Apart(cmd.Context(), args, trainings)
			if err != nil {
				return err
			}
			t, all, err := readTogether(cmd.Context(), args, times, own.Seconds())
			if err != nil {
				return err
			}
			t.Notes = append(t.Notes, notes...)
			if err := t.compose(all, byDelta, delta, epsilon); err != nil {
				return err
			}
			t.remedy()
			return a.print(t, t.write)
		},
	}
	f := c.Flags()
	f.Float64Var(&delta, "delta", 0, "print the joint epsilon of all trainings at this delta")
	f.Float64Var(&epsilon, "epsilon", 0, "print the joint delta of all trainings at this epsilon")
	f.DurationVar(&own, "own-samples", ownSamples, "CPU time for fresh samples of certificates that rest on samples, under a key of your own, of all runs together; 0 to recompute nothing")
	f.IntSliceVar(&counts, "times", []int{1}, "number of times that each run counts; a list, such as 3,1, has one number for each run")
	return c
}

// remedy adds a note for each run that is certified at a single ε: further points would make the
// composition tighter at no more noise.
func (t *together) remedy() {
	for _, run := range t.single {
		epsilon := run.Points[0].Epsilon
		if t.Trainings < 2 || epsilon == 0 {
			continue
		}
		var parts []string
		for _, part := range []float64{0.125, 0.25, 0.5, 0.75} { // as minsep plan writes them
			parts = append(parts, strconv.FormatFloat(part*epsilon, 'g', 3, 64))
		}
		t.Notes = append(
			t.Notes,
			fmt.Sprintf(
				"%s is certified at one epsilon only: its trainings add up to less if smaller epsilon are certified too, which takes no more noise: minsep account --also-epsilon %s, or privacy.also_epsilon in a plan",
				run.Directory,
				strings.Join(parts, ","),
			),
		)
	}
}

// mustBeFolders refuses a file, such as a plan, in place of a run directory.
func mustBeFolders(ctx context.Context, dirs []string) error {
	check := param.Checker{}
	for _, dir := range dirs {
		of, err := store.Stat(ctx, dir)
		check.Require(
			err != nil || of.Dir,
			"run directory",
			dir,
			"is a file: name a run directory, as minsep run makes from a plan",
		)
	}
	return check.Err()
}

// readTogether reads the certificates of the runs, and recomputes them in some seconds of processors
// for samples; in none it takes them as they stand. All of them must protect the same unit under the
// same adjacency: δ of owners and δ of examples do not add up.
func readTogether(
	ctx context.Context,
	dirs []string,
	times []int,
	seconds float64,
) (*together, []training, error) {
	t := &together{Assumes: apart, Recomputed: seconds > 0}
	var all []training
	for i, dir := range dirs {
		path := store.Join(dir, manifest.CertificateFile)
		data, err := stages.ReadFile(ctx, path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, &param.Error{Param: "run directory", Value: dir, Rule: withoutCertificate(ctx, dir)}
		}
		if err != nil {
			return nil, nil, err
		}
		c, err := accounting.ParseCertificate(data)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w: %w", path, manifest.ErrInvalid, err)
		}
		if err := stages.CheckClaim(ctx, dir); err != nil {
			return nil, nil, err
		}
		if c.Status != accounting.Verified {
			return nil, nil, &param.Error{
				Param: "certificate",
				Value: path,
				Rule:  fmt.Sprintf("must be verified: its status is %q", c.Status),
			}
		}
		of := composed{Directory: dir, Times: times[i]}
		if _, err := store.Stat(ctx, store.Join(dir, manifest.LedgerFolder)); errors.Is(err, fs.ErrNotExist) {
			t.Recomputed = false
			t.Notes = append(
				t.Notes,
				dir+" has no ledger, so nobody can check its certificate, and compose takes it on trust: put the folder back; minsep inspect asks for it too",
			)
		} else if seconds > 0 {
			found, err := inspect.Claim(ctx, dir, seconds/float64(len(dirs)))
			if err != nil {
				return nil, nil, err
			}
			judged := inspect.Judge(found)
			if err := judged.Err(); err != nil {
				return nil, nil, fmt.Errorf("%s: %s: %w", dir, judged.Verdict, err)
			}
			of.Recomputed = judged.Recomputed
		}
		for _, p := range c.Guarantee() {
			of.Points = append(of.Points, pld.Point(p))
		}
		t.Runs, t.Trainings = append(t.Runs, of), t.Trainings+of.Times
		// A privacy loss distribution says more than points, so it is taken where there is one.
		run, err := trainingOf(c, of)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, run)
		if run.events == nil && len(of.Points) == 1 {
			t.single = append(t.single, of)
		}
		released, err := t.releases(ctx, dir, c)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, released...)
		switch {
		case i == 0:
			t.Protected, t.Adjacency = c.Protected(), c.Adjacency
		case c.Protected() != t.Protected || c.Adjacency != t.Adjacency:
			return nil, nil, &param.Error{
				Param: "run directory",
				Value: dir,
				Rule: fmt.Sprintf(
					"its certificate protects %s (%s), the certificate of %s protects %s (%s): all must protect the same; certify all of them for one unit",
					c.Protected(),
					c.Adjacency,
					dirs[0],
					t.Protected,
					t.Adjacency,
				),
			}
		}
	}
	return t, all, nil
}

// releases returns the claims of the private statistics in a run directory: each counts once.
func (t *together) releases(
	ctx context.Context,
	dir string,
	c *accounting.Certificate,
) (all []training, err error) {
	released, err := statistics.All(ctx, dir)
	for _, r := range released {
		if c.Run.MaxExamplesPerOwner > r.MaxExamplesPerOwner {
			return nil, &param.Error{Param: "statistics", Value: r.Name, Rule: fmt.Sprintf(
				"protect an owner with at most %d examples, and the certificate of %s one with more: they are of another table",
				r.MaxExamplesPerOwner, dir)}
		}
		all = append(all, training{points: pld.Points{{Epsilon: r.Epsilon}}, count: 1})
		t.Statistics = append(t.Statistics, store.Join(dir, manifest.StatisticsFolder, r.Name)+": "+r.Claim())
	}
	return all, err
}

// withoutCertificate says how to name or complete a run directory that has no certificate.
func withoutCertificate(ctx context.Context, dir string) string {
	if _, err := store.Stat(ctx, dir); errors.Is(err, fs.ErrNotExist) {
		return "does not exist: name a run directory, as minsep run makes"
	}
	return "must hold " + manifest.CertificateFile + ": minsep account makes one, and minsep run makes it from a plan"
}

// trainingOf returns the training that a certificate proves: by its privacy events if the proof is
// by them, else by its certified points and the proofs without samples at other ε.
func trainingOf(c *accounting.Certificate, of composed) (training, error) {
	t := training{points: of.Points, count: of.Times}
	if c.Method == accounting.PLD || c.Method == accounting.ClosedForm {
		events, err := c.Run.Events(c.NoiseMultiplier)
		var bad *param.Error // the noise of a claim in closed form may be too small for events
		switch {
		case err == nil:
			t.events = events
			return t, nil
		case !errors.Is(err, accounting.ErrNoProof) && !errors.As(err, &bad):
			return t, err
		}
	}
	more, err := proven(c)
	t.points = append(slices.Clone(t.points), more...)
	return t, err
}

// provenAt are multiples of a certificate's ε. If samples decided the claim and a proof without
// samples is known as well, δ is proven at these ε too: the composition of many trainings depends
// on δ at small ε.
var provenAt = []float64{0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.2, 1.5, 2}

// proven returns further points of a certificate that need no samples. It returns none if no such
// proof is known, or if batches are cut: the claim's own proof then adds a cost for the cut to δ,
// which these points would miss.
func proven(c *accounting.Certificate) (points []pld.Point, err error) {
	if c.Run.Sampler.Truncation != nil {
		return nil, nil
	}
	for _, part := range provenAt {
		epsilon := part * c.Epsilon
		pq, qp, err := c.Run.Prove(c.NoiseMultiplier, epsilon)
		if errors.Is(err, accounting.ErrNoProof) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		points = append(points, pld.Point{Epsilon: epsilon, Delta: min(1, max(pq, qp)*(1+1e-8))})
	}
	return points, nil
}

// compose computes the ε or δ that was asked for. It takes the plain sums instead if they are
// smaller.
func (t *together) compose(all []training, byDelta bool, delta, epsilon float64) error {
	var sum basic
	var steps []pld.Step
	for _, run := range all {
		sum.Epsilon += float64(run.count) * run.points[0].Epsilon
		sum.Delta += float64(run.count) * run.points[0].Delta
		if run.events == nil {
			steps = append(steps, pld.Step{Event: run.points, Count: run.count})
		}
		for _, event := range run.events {
			event.Count *= run.count
			steps = append(steps, event)
		}
	}
	c, err := pld.Compose(steps, pld.Options{})
	if err != nil {
		return err
	}
	if byDelta {
		found, err := c.Epsilon(delta)
		if err != nil {
			return err
		}
		t.Epsilon, t.Delta = found, delta
	} else {
		t.Epsilon = epsilon
		if t.Delta, err = c.Delta(epsilon); err != nil {
			return err
		}
	}
	if sum.Delta < 1 {
		t.Basic = &sum
	}
	if sum.Epsilon <= t.Epsilon && sum.Delta <= t.Delta { // the composition rounds losses up, the sums do not
		t.Epsilon, t.Delta = max(sum.Epsilon, epsilon), max(sum.Delta, delta)
	}
	switch {
	case math.IsInf(t.Epsilon, 1):
		return t.tooSmall(c, all, delta)
	case t.Delta >= 1:
		return &param.Error{Param: "epsilon", Value: epsilon, Rule: "has no delta below 1: give a larger epsilon"}
	}
	return nil
}

// tooSmall returns the error for a δ at which no ε is finite. Either it is below the δ that the
// trainings' own points leave at every ε, or below the tail of the events' losses that the
// composition cuts off.
func (t *together) tooSmall(c *pld.Composition, all []training, delta float64) error {
	e := &param.Error{Param: "delta", Value: delta}
	kept := 1.0 // probability that no training's δ event happens
	for _, run := range all {
		if run.events != nil {
			continue
		}
		lowest := 1.0
		for _, p := range run.points {
			lowest = min(lowest, p.Delta)
		}
		kept *= math.Pow(1-lowest, float64(run.count))
	}
	switch {
	case 1-kept > 0.999:
		e.Rule = "is out of reach: the smallest delta of the trainings add up to nearly 1; certify each training with a smaller delta, or also at a larger epsilon (account --also-epsilon)"
	case 1-kept >= delta:
		e.Rule = fmt.Sprintf(
			"must be above %.3g, the sum of the trainings' smallest delta: give a larger delta, or certify each training with a smaller one, or also at a larger epsilon (account --also-epsilon)",
			1-kept,
		)
	default:
		e.Rule = fmt.Sprintf(
			"is too small for %d trainings: the tails that are cut off their privacy losses add up to more; give a larger delta",
			t.Trainings,
		)
		// The cut tails have no simple sum: powers of ten are tried until one is enough.
		for larger := 10 * delta; larger < 1; larger *= 10 {
			if found, err := c.Epsilon(larger); err == nil && !math.IsInf(found, 1) {
				e.Rule = fmt.Sprintf(
					"is too small for %d trainings: the tails that are cut off their privacy losses add up to more; --delta %.3g is enough, at epsilon %.4g",
					t.Trainings,
					larger,
					found,
				)
				break
			}
		}
	}
	return e
}

func (t *together) write(w io.Writer) {
	fmt.Fprintf(
		w,
		"(ε, δ) = (%s, %s) for %s together, for %s; certificates %s%s\n",
		ceiled(t.Epsilon),
		ceiled(t.Delta),
		words.Count(t.Trainings, "training"),
		t.Protected,
		map[bool]string{true: "recomputed", false: "not recomputed"}[t.Recomputed],
		map[bool]string{true: ", claims of statistics taken as they are stated"}[t.Statistics != nil],
	)
	fmt.Fprintf(w, "adjacency   %s\n", t.Adjacency)
	if t.Basic != nil {
		fmt.Fprintf(w, "sums        (%s, %s), which holds too\n", ceiled(t.Basic.Epsilon), ceiled(t.Basic.Delta))
	}
	for _, r := range t.Runs {
		fmt.Fprintf(w, "run         %s", r.Directory)
		if r.Times > 1 {
			fmt.Fprintf(w, ", %d times", r.Times)
		}
		for i, p := range r.Points {
			fmt.Fprintf(w, "%s (%g, %g)", map[bool]string{true: ":", false: ","}[i == 0], p.Epsilon, p.Delta)
		}
		if r.Recomputed != "" {
			fmt.Fprintf(w, "; %s", r.Recomputed)
		}
		fmt.Fprintln(w)
	}
	for _, r := range t.Statistics {
		fmt.Fprintf(w, "statistics  %s\n", r)
	}
	for _, note := range t.Notes {
		fmt.Fprintf(w, "note        %s\n", note)
	}
	fmt.Fprintf(w, "assumes     %s\n", t.Assumes)
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

// commas formats numbers as they are given to a flag: 1,2,3.
func commas(list []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]")
}
