package pipelines

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/accounting"
	"minsep/accounting/ledger"
	"minsep/accounting/montecarlo"
	"minsep/accounting/verification"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/sampling"
	"minsep/transforms/losses"
	"minsep/transforms/manifestio"
	"minsep/transforms/progress"
)

// What an account leaves in a run directory.
const (
	LedgerFolder    = "ledger"
	CertificateFile = "certificate.json"

	requestName    = "request.json" // in the ledger: what was asked for
	finishedFolder = "finished"     // in the ledger: units that are not in the log yet
	earlierFolder  = "earlier"      // in the ledger: protocols that were replaced, by hash
)

// request is what an account was asked for. A run that was stopped goes on with the protocol of its ledger if the request is the
// same; another machine may well estimate, and so choose candidates, differently in the last digits.
type request struct {
	Sampler             sampling.Spec   `json:"sampler"`
	Strategy            manifest.Digest `json:"strategy_sha256"` // of its JSON, unless it is made from Bands
	Bands               int             `json:"bands,omitempty"`
	MaxExamplesPerOwner int             `json:"max_examples_per_owner"`
	Unit                accounting.Unit `json:"unit"`
	Examples            int64           `json:"examples,omitempty"`
	Epsilon             float64         `json:"epsilon"`
	Delta               float64         `json:"delta"`
	NoiseMultiplier     float64         `json:"noise_multiplier,omitempty"`
	Samples             uint64          `json:"samples,omitempty"`
	CPUTime             string          `json:"cpu_time,omitempty"`
}

func (a Account) request(p verification.Problem) (request, error) {
	r := request{Sampler: p.Run.Sampler, Bands: a.Bands, MaxExamplesPerOwner: p.Run.MaxExamplesPerOwner, Unit: p.Unit, Examples: p.Run.Examples,
		Epsilon: p.Epsilon, Delta: p.Delta, NoiseMultiplier: p.NoiseMultiplier, Samples: p.Samples}
	if p.CPUTime > 0 {
		r.CPUTime = p.CPUTime.String()
	}
	if a.Bands == 0 {
		b, err := json.Marshal(p.Run.Strategy)
		if err != nil {
			return r, fmt.Errorf("pipelines: %w", err)
		}
		r.Strategy = sha256.Sum256(b)
	}
	return r, nil
}

func (r request) encode() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	return append(b, '\n'), err
}

// lookAt says whether the ledger holds a protocol of the same request, to go on with. A finished certificate is refused unless it may be
// overwritten. A protocol of another request that gave none is not: it is put aside, where it counts, so that nothing is lost.
func (o Options) lookAt(ctx context.Context, book string, r request) (resume bool, err error) {
	if _, err := store.Stat(ctx, store.Join(o.Out, CertificateFile)); err == nil && !o.Overwrite {
		return false, fmt.Errorf("pipelines: %s: %w", store.Join(o.Out, CertificateFile), manifest.ErrExists)
	}
	if _, err := store.Stat(ctx, store.Join(book, ledger.ProtocolFile)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("pipelines: %w", err)
	}
	want, err := r.encode()
	if err != nil {
		return false, err
	}
	got, err := ReadFile(ctx, store.Join(book, requestName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("pipelines: %w", err)
	}
	return bytes.Equal(got, want), nil
}

// open opens the ledger: with its own protocol if p is nil, else for p, after putting a protocol that is there aside.
func (r request) open(book string, p *accounting.Protocol) (*ledger.Ledger, error) {
	if p == nil {
		l, err := ledger.Open(book)
		if err != nil {
			return nil, err
		}
		if own := l.Protocol().KernelID; own != "" && own != montecarlo.KernelID() {
			return nil, errors.Join(fmt.Errorf("pipelines: the ledger's samples are of kernel %s, this machine's is %s: results of different kernels are not mixed", own, montecarlo.KernelID()), l.Close())
		}
		return l, nil
	}
	if err := putAside(book); err != nil {
		return nil, err
	}
	if err := store.MkdirAll(context.Background(), store.Join(book, finishedFolder), manifest.PublicDir); err != nil {
		return nil, fmt.Errorf("pipelines: %w", err)
	}
	b, err := r.encode()
	if err != nil {
		return nil, err
	}
	if _, err := manifest.WriteFile(book, requestName, manifest.PublicFile, func(w io.Writer) error { _, err := w.Write(b); return err }); err != nil {
		return nil, err
	}
	return ledger.Create(book, p)
}

// putAside moves a protocol, its units and the certificate that was made of them to a folder of its own.
func putAside(book string) error {
	l, err := ledger.Open(book)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = losses.Collect(store.Join(book, finishedFolder), l)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	dir := store.Join(book, earlierFolder, l.Configuration())
	if err := store.MkdirAll(context.Background(), dir, manifest.PublicDir); err != nil {
		return fmt.Errorf("pipelines: %w", err)
	}
	// The protocol goes last: until then the ledger is what it was.
	certificate := store.Join(store.Dir(book), CertificateFile)
	if err := store.Move(context.Background(), certificate, store.Join(dir, CertificateFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pipelines: %w", err)
	}
	for _, name := range []string{ledger.UnitsFile, ledger.ProtocolFile} {
		err := store.Move(context.Background(), store.Join(book, name), store.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) && name == ledger.UnitsFile { // in an object store there is none before the first unit
			err = nil
		}
		if err != nil {
			return fmt.Errorf("pipelines: %w", err)
		}
	}
	return nil
}

// earlier lists the protocols in and beside a ledger that have samples and are for the same sampler and strategy, see
// accounting.Run.Equivalent: they were seen before the next protocol is fixed.
func earlier(ctx context.Context, book string, run accounting.Run) (list []accounting.Earlier, err error) {
	replaced, err := store.List(ctx, store.Join(book, earlierFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("pipelines: %w", err)
	}
	var dirs []string
	for _, e := range replaced {
		dirs = append(dirs, store.Join(book, earlierFolder, e.Name))
	}
	for _, dir := range append(dirs, book) {
		l, err := ledger.Read(ctx, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if l.Protocol().KernelID == "" || !run.Equivalent(l.Protocol().Run) {
			continue
		}
		q := 0.0
		for _, point := range l.Protocol().Points {
			q += point.FailureProbability
		}
		list = append(list, accounting.Earlier{ProtocolSHA256: l.Configuration(), FailureProbability: q})
	}
	return list, nil
}

// verify draws what is missing, from the candidate with the most noise down to the first that is not accepted.
func (o Options) verify(ctx context.Context, book string, l *ledger.Ledger) error {
	finished, err := store.Abs(store.Join(book, finishedFolder))
	if err != nil {
		return err
	}
	if err := store.MkdirAll(context.Background(), finished, manifest.PublicDir); err != nil {
		return fmt.Errorf("pipelines: %w", err)
	}
	if err := losses.Collect(finished, l); err != nil {
		return err
	}
	p := l.Protocol()
	encoded, err := p.Encode()
	if err != nil {
		return err
	}
	size := losses.UnitSize(p.Run.Sampler.Scheme().NumSteps())
	missing := uint64(0) // at most: a candidate that is rejected ends the verification
	for c := range p.Candidates {
		for _, u := range l.Missing(c, size) {
			missing += u.Count
		}
	}
	progress.Expect(losses.SamplesDrawn, int64(missing))
	for c := len(p.Candidates) - 1; c >= 0; c-- {
		if units := l.Missing(c, size); len(units) > 0 {
			progress.Enter(fmt.Sprintf("verifying candidate %d of %d", len(p.Candidates)-c, len(p.Candidates)), "", 0, 0)
			pipeline, s := beam.NewPipelineWithRoot()
			if _, err := losses.Sum(s, losses.Config{Protocol: string(encoded), Dir: finished}, units); err != nil {
				return err
			}
			_, err := o.run(ctx, pipeline)
			if err = errors.Join(err, losses.Collect(finished, l)); err != nil {
				return err
			}
			if len(l.Missing(c, size)) > 0 {
				return manifestio.ErrUnfinished
			}
		}
		released, err := p.Release(l.Tallies())
		if errors.Is(err, accounting.ErrNotVerified) {
			return err
		}
		if err != nil {
			return err
		}
		if released.Candidate > c {
			break
		}
	}
	return nil
}

func writeCertificate(out string, c *accounting.Certificate) error {
	b, err := c.Encode()
	if err != nil {
		return err
	}
	_, err = manifest.WriteFile(out, CertificateFile, manifest.PublicFile, func(w io.Writer) error { _, err := w.Write(b); return err })
	return err
}
