package inspect

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/montecarlo"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
)

func init() { inspectors["account"] = inspectCertificate }

// inspectCertificate makes a certificate again from the ledger beside it, checks every proof, and
// compares the certificate's run with the batches and the bounded table beside it.
func inspectCertificate(ctx context.Context, path string, _ *manifest.Index, found *Inspection) error {
	if err := inspectClaim(ctx, path, found); err != nil {
		return err
	}
	beside, err := stages.Agreement(ctx, store.Dir(path), found.all.Certificate)
	found.Checks = append(found.Checks, beside...)
	return err
}

// inspectClaim is inspectCertificate without what is beside certificate and ledger.
func inspectClaim(ctx context.Context, path string, found *Inspection) error {
	data, err := stages.ReadFile(ctx, path)
	if err != nil {
		return err
	}
	c, err := accounting.ParseCertificate(data)
	if err != nil {
		return err
	}
	found.all.Certificate = c
	if found.all.Scheme == nil {
		found.all.Scheme = &c.Run.Sampler
	}
	if rule := stages.Misnamed(store.Base(path), c); rule != "" {
		found.check("name", rule, false)
	}
	run := store.Dir(path)
	l, err := ledger.Read(ctx, store.Join(run, manifest.LedgerFolder))
	if err != nil {
		return err
	}
	found.all.ledger = l
	again, err := l.CertificateFile()
	found.check("certificate", "its bytes follow from the ledger", err == nil && bytes.Equal(again, data))
	found.check(
		"proofs",
		"every bound without samples, and every cost of truncation, holds when it is computed again",
		calibration.CheckProofs(ctx, l.Protocol()) == nil,
	)
	if id := l.Protocol().KernelID; id != "" || len(l.Tallies()) > 0 {
		found.check("kernel", "the samples are of a kernel of minsep", montecarlo.IsKernelID(id))
		if id != montecarlo.KernelID() {
			found.Notes = append(
				found.Notes,
				"the ledger's samples are of another kernel than this machine's: --recheck cannot compare them here, own samples need no kernel",
			)
		}
	}
	missed, err := uncounted(ctx, run, l)
	if err != nil {
		return err
	}
	found.check("earlier protocols", "all that have samples in the ledger are counted in delta", missed == 0)
	return nil
}

// Claim reads the certificate of a run directory and its ledger as [Directory] does, without the
// batches and the table beside them.
func Claim(ctx context.Context, dir string, o Options) (Report, error) {
	name, err := stages.FindClaim(ctx, dir)
	if err != nil {
		return Report{}, err
	}
	return read(ctx, dir, []folder{{store.Join(dir, name), name, inspectClaim}}, o)
}

// uncounted returns the number of earlier protocols that the ledger's protocol leaves out of its δ.
// An earlier protocol with samples spends δ as well, so every one must be counted.
func uncounted(ctx context.Context, run string, l *ledger.Ledger) (missed int, err error) {
	if l.Protocol().KernelID == "" {
		return 0, nil
	}
	before, err := stages.Earlier(ctx, store.Join(run, manifest.LedgerFolder))
	counted := map[accounting.Earlier]bool{}
	for _, e := range l.Protocol().Earlier {
		counted[e] = true
	}
	for _, e := range before {
		if e.ProtocolSHA256 != l.Configuration() && !counted[e] {
			missed++
		}
	}
	return missed, err
}

// resample draws samples of the certificate for some seconds of processors: see [Options]. If proofs
// without samples carry the claim, they have been computed again, and no sample is drawn. Nor is any if
// there is no certificate that follows from its ledger.
func (found *Inspection) resample(ctx context.Context, seconds float64) error {
	l := found.all.ledger
	if l == nil {
		return nil
	}
	released, err := l.Protocol().Release(l.Tallies())
	if err != nil {
		return nil
	}
	own, err := calibration.Resample(ctx, l.Protocol(), released, seconds)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		found.check("own samples", "samples can be drawn as the protocol says: "+err.Error(), false)
		return nil
	}
	found.all.own = &own
	says := "do not contradict the claim"
	if own.Contradicts {
		says = "contradict the claim"
	}
	rule := fmt.Sprintf(
		"%d fresh samples under a key of the reader's own %s: by them delta is at most %.3g with %g %% confidence",
		own.Samples,
		says,
		own.Delta,
		100*calibration.OwnConfidence,
	)
	further := 0
	for i, point := range l.Protocol().Points {
		if i > 0 && released.Certified[i] {
			rule += fmt.Sprintf("; at epsilon %g at most %.3g", point.Epsilon, own.Further[further])
			further++
		}
	}
	if own.Samples == 0 {
		rule = "no samples are needed: proofs carry the claim"
	}
	found.check("own samples", rule, !own.Contradicts)
	return nil
}

// recomputed says in words what of the certificate's samples was recomputed.
func (c *Contents) recomputed() string {
	sampled := false
	for _, point := range c.Certificate.Points {
		for _, v := range point.Directions {
			sampled = sampled || v.Samples > 0
		}
	}
	if !sampled {
		return "its proofs computed again"
	}
	text := "samples not recomputed"
	if c.own != nil {
		text = fmt.Sprintf(
			"own samples: delta at most %.3g with %g %% confidence",
			c.own.Delta,
			100*calibration.OwnConfidence,
		)
	}
	if c.rechecked != "" {
		text += "; " + c.rechecked
	}
	return text
}

// recheck computes some blocks of the ledger again, and compares their sums. Each is drawn at random in
// proportion to its samples. On a machine with another kernel than the ledger's it is
// an error; samples of no kernel are a failed check. A proposal that cannot be made again is a failed check if
// this version made the protocol, and otherwise an error.
func (found *Inspection) recheck(ctx context.Context, blocks int) error {
	l, err := ledger.Read(ctx, found.Folder) // there need not be a certificate
	if err != nil {
		return err
	}
	p := l.Protocol()
	switch {
	case p.KernelID == "" || p.KernelID == montecarlo.KernelID():
	case !montecarlo.IsKernelID(p.KernelID):
		found.check("blocks", "they are of a kernel of minsep, and can be computed again", false)
		return nil
	default:
		return param.Fault("recheck", blocks,
			"needs a machine with kernel %s, of which the samples are; this one has kernel %s: without it, fresh samples are drawn on any machine", p.KernelID, montecarlo.KernelID())
	}
	type block struct {
		candidate, trial int
		first, count     uint64
		sum              montecarlo.Sum
	}
	var all []block
	samples := uint64(0)
	for u, r := range l.Units {
		i := 0
		for first, count := range u.Blocks {
			all = append(all, block{u.Candidate, u.Trial, first, count, r.Sums[i]})
			i++
		}
		samples += u.Count
	}
	broken := int64(0)
	drawn := map[int]bool{}
	for range min(blocks, 1<<20) {
		if samples == 0 {
			break
		}
		i := 0
		for at := rand.Uint64N(samples); at >= all[i].count; i++ {
			at -= all[i].count
		}
		drawn[i] = true
	}
	// Blocks are in the order of the trials, whose tables are made once.
	var w *calibration.Worker
	var of block
	for _, i := range slices.Sorted(maps.Keys(drawn)) {
		b := all[i]
		if w == nil || b.candidate != of.candidate || b.trial != of.trial {
			of = b
			w, err = calibration.NewWorker(p, b.candidate, b.trial)
			if err != nil && (p.CodeVersion != manifest.Version || ctx.Err() != nil) {
				return err
			}
		}
		if w == nil { // this version would not have made such a protocol
			broken++
			continue
		}
		got, err := w.Run(ctx, b.first, b.count, 0)
		if err != nil {
			return err
		}
		if got.Total() != b.sum {
			broken++
		}
	}
	chance := undetected(l, samples, len(all) > len(drawn), blocks)
	rule := fmt.Sprintf(
		"%d of the ledger's %d blocks of at most %d samples, drawn by their samples, are the same when they are computed again%s",
		len(drawn),
		len(all),
		ledger.BlockSize,
		chance,
	)
	if len(drawn) > 0 {
		found.all.rechecked = fmt.Sprintf("%d of %d blocks of samples recomputed%s", len(drawn), len(all), chance)
	}
	found.count("blocks", rule, broken)
	return nil
}

// undetected says with which probability some drawn blocks miss that the mean of a trial was lowered by
// a tenth of δ; nothing if all blocks were computed. A sum of s samples, each at most M, that is lowered
// by D has changed blocks with D/M samples at least, and a draw of one of all samples finds these with a
// probability of D/M over their number, in whichever trial they are.
func undetected(l *ledger.Ledger, samples uint64, some bool, draws int) string {
	if !some {
		return ""
	}
	p, least := l.Protocol(), 1.0
	for _, tally := range l.Tallies() {
		t := p.Candidates[tally.Candidate].Trials[tally.Trial]
		changed := p.Points[t.Point].Delta / 10 / t.Bound * float64(tally.Count)
		least = min(least, changed/float64(samples))
	}
	return fmt.Sprintf(
		"; a mean that was lowered by a tenth of delta stays undetected with a probability of at most %.2g",
		math.Pow(1-least, float64(draws)),
	)
}
