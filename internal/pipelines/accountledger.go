package pipelines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/montecarlo"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/transforms/losses"
	"minsep/internal/transforms/manifestio"
	"minsep/internal/transforms/progress"
)

// lookAt reports whether the ledger holds a protocol of the same request, from which the account
// goes on. It refuses a finished certificate. A protocol of another
// request without a certificate is not refused: it is set aside, where it still counts, so that
// nothing is lost.
func (c *claim) lookAt(ctx context.Context) (resume bool, err error) {
	folder, r := c.ledger(), c.request
	name, err := stages.FindClaim(ctx, c.path)
	if err != nil {
		return false, err
	}
	if name != "" {
		return false, fmt.Errorf(
			"%s%s: %w",
			store.Join(c.path, name),
			stages.AskedOtherwise(ctx, folder, r),
			manifest.ErrExists,
		)
	}
	there, differs, err := r.Unfinished(ctx, folder)
	return there && differs == nil, err
}

// openLedger opens the ledger: with its own protocol if p is nil, or for p, after it has set aside
// the protocol that is there.
func openLedger(folder string, r stages.Request, p *accounting.Protocol) (*ledger.Ledger, error) {
	if p == nil {
		l, err := ledger.Open(folder)
		if err != nil {
			return nil, err
		}
		if own := l.Protocol().KernelID; own != "" && own != montecarlo.KernelID() {
			return nil, fmt.Errorf(
				"the samples of the ledger were made by kernel %s, and this machine has kernel %s; samples of two kernels are not mixed: go on on a machine with the kernel of the ledger",
				own,
				montecarlo.KernelID(),
			)
		}
		return l, nil
	}
	// The request is written before the protocol: a command that is stopped between the two finds
	// no protocol, and begins again.
	if err := putAside(folder); err != nil {
		return nil, err
	}
	if err := store.MkdirAll(context.Background(), store.Join(folder, manifest.FinishedFolder), manifest.PublicDir); err != nil {
		return nil, err
	}
	b, err := r.Encode()
	if err != nil {
		return nil, err
	}
	if err := store.WriteFile(context.Background(), store.Join(folder, manifest.RequestFile), store.Options{Mode: manifest.PublicFile}, b); err != nil {
		return nil, err
	}
	return ledger.Create(folder, p)
}

// putAside moves a protocol, its units and its certificate to a folder of their own.
func putAside(folder string) error {
	l, err := ledger.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// Units that a stopped job left in files were seen too, and belong to the protocol.
	err = losses.Collect(context.Background(), store.Join(folder, manifest.FinishedFolder), l.AddAll)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := store.Join(folder, manifest.EarlierFolder, l.Configuration())
	if err := store.MkdirAll(context.Background(), dir, manifest.PublicDir); err != nil {
		return err
	}
	// The protocol goes last: until then the ledger is unchanged.
	for _, name := range stages.ClaimFiles {
		err := store.Move(context.Background(), store.Join(store.Dir(folder), name), store.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := putUnitsAside(store.Join(folder, ledger.UnitsFile), store.Join(dir, ledger.UnitsFile)); err != nil {
		return err
	}
	return store.Move(context.Background(), store.Join(folder, ledger.ProtocolFile), store.Join(dir, ledger.ProtocolFile))
}

// putUnitsAside moves a log of units. One of the same protocol may be there already, if a command
// was stopped or the protocol was set aside before. Both have the same values, and the longer log
// stays.
func putUnitsAside(from, to string) error {
	ctx := context.Background()
	now, err := store.Stat(ctx, from)
	if errors.Is(err, fs.ErrNotExist) { // no unit is finished
		return nil
	}
	if err != nil {
		return err
	}
	before, err := store.Stat(ctx, to)
	if err == nil && before.Size > now.Size {
		return store.Remove(ctx, from)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return store.Move(ctx, from, to)
}

// verify runs the release loop of package verification, with samples that Beam draws.
func (c *claim) verify(ctx context.Context, l *ledger.Ledger) error {
	finished, err := store.Abs(store.Join(c.ledger(), manifest.FinishedFolder))
	if err != nil {
		return err
	}
	if err := store.MkdirAll(context.Background(), finished, manifest.PublicDir); err != nil {
		return err
	}
	// Units that an earlier command finished, and did not live to record, are not drawn again.
	if err := losses.Collect(context.Background(), finished, l.AddAll); err != nil {
		return err
	}
	p := l.Protocol()
	encoded, err := p.Encode()
	if err != nil {
		return err
	}
	size := calibration.UnitSize(p.Run.Sampler.Scheme().NumSteps())
	missing := uint64(0) // at most: a candidate that is rejected ends the verification
	for i := range p.Candidates {
		for _, u := range l.Missing(i, size) {
			missing += u.Count
		}
	}
	progress.Expect(losses.SamplesDrawn, int64(missing))
	return calibration.Release(
		ctx,
		l,
		size,
		func(ctx context.Context, l *ledger.Ledger, candidate int, units []ledger.Unit) error {
			progress.Enter(
				fmt.Sprintf("verifying candidate %d of %d", len(p.Candidates)-candidate, len(p.Candidates)),
				"",
				0,
				0,
			)
			pipeline, s := beam.NewPipelineWithRoot()
			list, err := losses.Create(s, units)
			if err != nil {
				return err
			}
			if _, err := losses.Sum(s, losses.Config{Protocol: string(encoded), Dir: finished}, list); err != nil {
				return err
			}
			// A failed job may have finished units: they are recorded before its error is returned.
			err = c.jobs.run(ctx, pipeline)
			if err = errors.Join(err, losses.Collect(context.Background(), finished, l.AddAll)); err != nil {
				return err
			}
			if len(l.Missing(candidate, size)) > 0 {
				return manifestio.ErrUnfinished
			}
			return nil
		},
	)
}

// writeCertificate writes a certificate to the one of stages.ClaimFiles where it belongs.
func writeCertificate(out string, c *accounting.Certificate) error {
	b, err := c.Encode()
	if err != nil {
		return err
	}
	return store.WriteFile(context.Background(), store.Join(out, stages.ClaimFile(c.Status)), store.Options{Mode: manifest.PublicFile}, b)
}
