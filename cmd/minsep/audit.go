package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"minsep/accounting"
	"minsep/audit"
	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/internal/words"
	"minsep/manifest"
	"minsep/mechanism/noise"
	"minsep/stages"
)

// errAudit reports that an audit found a fault; the command exits with code 3.
var errAudit = errors.New("the sums do not come from the certified mechanism")

// audited is the JSON output of minsep audit.
type audited struct {
	Verdict         string         `json:"verdict"`
	Epsilon         float64        `json:"epsilon"`          // of the certificate
	Delta           float64        `json:"delta"`            // of the certificate
	EpsilonBound    float64        `json:"epsilon_bound"`    // lower confidence bound
	FalseAlarm      float64        `json:"false_alarm"`      // error probability of EpsilonBound, and of each verdict that reports a fault
	With            auditDirection `json:"with"`             // test for "took part"
	Without         auditDirection `json:"without"`          // test for "did not take part"
	OneRun          float64        `json:"one_run_bound"`    // at confidence 0.95; for canaries that were included by fair coins
	Adapted         float64        `json:"adapted_bound"`    // lower confidence bound of ε, by the adaptive attack
	Compared        bool           `json:"compared"`         // whether distributions were compared with the mechanism's
	Differences     []string       `json:"differences"`      // statistics that do not follow the mechanism
	NoiseMultiplier float64        `json:"noise_multiplier"` // σ that the noise should have
	Exact           bool           `json:"exact"`            // whether scores are the true likelihood ratio
	Swapped         bool           `json:"swapped"`          // whether the two files look exchanged
}

type auditDirection struct {
	EpsilonBound  float64 `json:"epsilon_bound"`
	DeltaBound    float64 `json:"delta_bound"`    // lower confidence bound of the divergence at the certificate's ε
	DeltaEstimate float64 `json:"delta_estimate"` // estimate of that divergence
	StandardError float64 `json:"standard_error"` // of the estimate
	Observations  int     `json:"observations"`
}

func (a *app) auditCommand() *cobra.Command {
	var with, without string
	var clipNorm float64
	var canary int
	c := &cobra.Command{
		Use:   "audit RUN --observations FILE --without FILE",
		Short: "Attack the released sums of a training: a lower bound of epsilon, to compare with the certificate",
		Long: `audit tries to tell from the noisy sums of your own training code whether a canary took part, and compares its success
with the certificate of the run directory. A canary is an example of your choice. In one coordinate its clipped gradient is the
clip norm, and in that coordinate the gradients of all other examples are zero.

--observations is an .npy file of shape [observations, steps]. Each row has the released sums, before they are divided by the
batch size, of the coordinate of a canary that took part in the training. --without is the same for canaries whose gradients
were left out. Rows must be independent: from canaries of one training, each with a coordinate and an owner of its own, or from
many trainings.

The first line is the verdict: "EXCEEDS: ", the lower bound of epsilon is above the certificate's epsilon; "DIFFERS: ", the sums
do not have the distribution of the certificate's mechanism; or "within: ", no fault was found, which proves nothing. EXCEEDS
and DIFFERS end with exit code 3; either is wrong with probability 1e-9 at most. audit does not check the certificate itself:
minsep inspect does.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			attack, m, clip, err := a.attackOn(cmd.Context(), args[0], clipNorm, cmd.Flags().Changed("clip-norm"), canary)
			if err == nil {
				err = a.zeros
			}
			if err != nil {
				return err
			}
			check := param.Checker{Package: "audit"}
			check.Require(with != "", "observations", `""`, "must name an .npy file of sums with the canary")
			check.Require(without != "", "without", `""`, "must name an .npy file of sums without the canary")
			check.Require(with == "" || with != without, "without", without, "must be another file than --observations")
			if err := check.Err(); err != nil {
				return err
			}
			sides, err := readSides(cmd.Context(), with, without, attack.Steps(), clip, m)
			if err != nil {
				return err
			}
			samples := [2]*audit.Sample{{}, {}}
			for half := range 2 { // the attack adapts to one half, and is judged by the other
				for i, rows := range sides {
					for _, row := range rows[half*len(rows)/2 : (half+1)*len(rows)/2] {
						attack.Add(samples[i], row)
					}
				}
				if half == 0 {
					attack.Adapt(sides[0][:len(sides[0])/2], sides[1][:len(sides[1])/2])
				}
			}
			// The seed is fixed, so that the same sums get the same verdict. The numbers only simulate the
			// mechanism to compare with, and nobody's privacy rests on them.
			j := attack.Judge(samples[0], samples[1], rand.New(rand.NewPCG(1, 2)))
			result := newAudited(m, attack, j)
			err = a.print(result, func(w io.Writer) { printAudit(w, result) })
			if j.Verdict(m.Epsilon) != audit.Within {
				err = errors.Join(errAudit, err)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&with, "observations", "", ".npy file, of shape [observations, steps], with the released sums of canaries that took part")
	f.StringVar(&without, "without", "", ".npy file, of shape [observations, steps], with the released sums of canaries whose gradients were left out")
	f.Float64Var(&clipNorm, "clip-norm", 0, "clip norm of the gradients (default: the clip norm of the noise in the run directory, or 1 without noise)")
	f.IntVar(&canary, "canary-examples", 1, "number of examples of each canary, all of one owner and with the same gradient")
	return c
}

// readSides reads the sums with the canary and without it, in units of the clip norm, and refuses
// fewer than tell anything.
func readSides(ctx context.Context, with, without string, steps int, clip float64, m audit.Mechanism) (sides [2][][]float64, err error) {
	least := audit.LeastObservations(m.Epsilon, m.Delta)
	for i, file := range []struct{ flag, path string }{{"observations", with}, {"without", without}} {
		if sides[i], err = audit.ReadObservations(ctx, file.flag, file.path, steps); err != nil {
			return sides, err
		}
		if len(sides[i]) < least {
			return sides, &param.Error{Package: "audit", Param: file.flag, Value: file.path, Rule: fmt.Sprintf("has %d observations: "+
				"must have at least %d, since with fewer no attack can show more than epsilon %g", len(sides[i]), least, m.Epsilon)}
		}
		for _, row := range sides[i] {
			for t := range row {
				// The attack is in units of the clip norm, as σ is.
				row[t] /= clip
			}
		}
	}
	return sides, nil
}

// attackOn prepares the attack on the certificate of the run directory dir. It also returns the
// mechanism and the clip norm: clip if given, else the clip norm of the directory's noise, else 1.
func (a *app) attackOn(ctx context.Context, dir string, clip float64, given bool, canary int) (*audit.Attack, audit.Mechanism, float64, error) {
	var m audit.Mechanism
	path := store.Join(dir, manifest.CertificateFile)
	data, err := stages.ReadFile(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, m, 0, &param.Error{Package: "audit", Param: "run directory", Value: dir, Rule: "must hold " + manifest.CertificateFile + ", to which the audit is compared: minsep account makes one"}
	}
	if err != nil {
		return nil, m, 0, err
	}
	c, err := accounting.ParseCertificate(data)
	if err != nil {
		return nil, m, 0, fmt.Errorf("%w: %s: %w", manifest.ErrInvalid, path, err)
	}
	if c.Status != accounting.Verified {
		return nil, m, 0, &param.Error{Package: "audit", Param: "certificate", Value: path, Rule: fmt.Sprintf("must be verified: its status is %q", c.Status)}
	}
	m = audit.Of(c)
	m.Examples = canary
	if !given {
		clip = 1
	}
	f, err := store.Open(ctx, store.Join(dir, manifest.NoiseFolder, manifest.RecipeFile))
	switch {
	case err == nil:
		defer f.Close()
		recipe, err := noise.Read(store.Reader(f))
		if err != nil {
			return nil, m, 0, err
		}
		// The noise may be larger than the certificate requires. The sums were made with the noise
		// multiplier of the recipe.
		m.NoiseMultiplier = float64(recipe.Params.NoiseMultiplier)
		if !given {
			clip = float64(recipe.Params.ClipNorm)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, m, 0, err
	}
	check := param.Checker{Package: "audit"}
	check.Positive("clip norm", clip)
	if err := check.Err(); err != nil {
		return nil, m, 0, err
	}
	attack, err := audit.NewAttack(m)
	return attack, m, clip, err
}

func newAudited(m audit.Mechanism, attack *audit.Attack, j audit.Judgement) audited {
	direction := func(d audit.Direction) auditDirection {
		return auditDirection{EpsilonBound: d.Epsilon, DeltaBound: d.Delta, DeltaEstimate: d.Estimate, StandardError: d.StandardError, Observations: d.Of}
	}
	r := audited{Epsilon: m.Epsilon, Delta: m.Delta, EpsilonBound: j.Epsilon, FalseAlarm: audit.FalseAlarm, With: direction(j.With), Without: direction(j.Without),
		OneRun: j.OneRun, Adapted: j.Adapted, Compared: j.Compared, Swapped: j.Swapped, NoiseMultiplier: m.NoiseMultiplier, Exact: attack.Exact, Differences: []string{}}
	for _, d := range j.Differences {
		r.Differences = append(r.Differences, d.String())
	}
	claim := fmt.Sprintf("the certificate's (%g, %g)", m.Epsilon, m.Delta)
	switch j.Verdict(m.Epsilon) {
	case audit.Exceeds:
		r.Verdict = fmt.Sprintf("%s: epsilon is at least %.4g at delta %g, above %s", audit.Exceeds, j.Epsilon, m.Delta, claim)
	case audit.Differs:
		r.Verdict = fmt.Sprintf("%s: the sums do not have the distribution of the certificate's mechanism; epsilon is at least %.4g", audit.Differs, j.Epsilon)
	default:
		r.Verdict = fmt.Sprintf("%s %s: epsilon is at least %.4g; an audit that finds nothing proves nothing", audit.Within, claim, j.Epsilon)
	}
	return r
}

// shownDifferences is the number of differences in the printed text; --json has all of them.
const shownDifferences = 6

func printAudit(w io.Writer, r audited) {
	fmt.Fprintln(w, r.Verdict)
	for _, d := range []struct {
		name string
		auditDirection
	}{{"took part", r.With}, {"did not", r.Without}} {
		fmt.Fprintf(w, "  %-10s %s observations: epsilon at least %.4g; delta at epsilon %g is at least %.4g, about %.4g ± %.2g\n", d.name, words.Grouped(int64(d.Observations)), d.EpsilonBound, r.Epsilon, d.DeltaBound, d.DeltaEstimate, d.StandardError)
	}
	fmt.Fprintf(w, "  adapted    epsilon at least %.4g, by an attack that was fitted to half of the observations\n", r.Adapted)
	if r.OneRun > 0 {
		fmt.Fprintf(w, "  one run    epsilon at least %.4g at confidence %g, if fair coins included the canaries\n", r.OneRun, audit.OneRunConfidence)
	}
	if r.Swapped {
		fmt.Fprintln(w, "  swapped?   --observations looks like sums without the canary, and --without like sums with it: if the files were exchanged, name them the other way")
	}
	switch {
	case !r.Compared:
		fmt.Fprintln(w, "  note       distributions were not compared: the likelihood ratio is not computed exactly here, or batches have a maximum size")
	case len(r.Differences) == 0:
		fmt.Fprintln(w, "  compared   likelihood ratios, squares and products of neighbouring steps follow the mechanism's distribution")
	}
	for _, d := range r.Differences[:min(shownDifferences, len(r.Differences))] {
		fmt.Fprintf(w, "  differs    %s\n", d)
	}
	if more := len(r.Differences) - shownDifferences; more > 0 {
		fmt.Fprintf(w, "             and %d more\n", more)
	}
}
