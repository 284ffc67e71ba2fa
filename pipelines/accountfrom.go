package pipelines

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"minsep/accounting"
	"minsep/accounting/calibration"
	"minsep/accounting/ledger"
	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/manifest"
	"minsep/sampling/stream"
	"minsep/stages"
)

// claimSource is a run directory from which another run takes the certificate.
type claimSource struct {
	dir         string
	certificate *accounting.Certificate
	protocol    string // SHA-256 of the ledger's protocol
	earlier     []accounting.Earlier
	request     stages.Request
	files       []sourceFile // of the ledger, earlier protocols first
}

// sourceFile is a file of a ledger, by its name in the run directory.
type sourceFile struct {
	name   string
	digest manifest.Digest
}

// readClaim reads the certificate of a run directory and checks it: its bytes follow from its
// ledger, every proof holds when it is computed again, and it counts all earlier protocols. The
// ledger's files are hashed before they are checked, so that the later copies can be compared with
// the checked files.
func readClaim(ctx context.Context, dir string) (*claimSource, error) {
	refuse := func(rule string) error {
		return &ParamError{Package: "pipelines", Param: "from", Value: dir, Rule: rule + "; `minsep inspect " + dir + "` says more"}
	}
	name, err := stages.FindClaim(ctx, dir)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, &ParamError{Package: "pipelines", Param: "from", Value: dir, Rule: "must be a run directory with a certificate"}
	}
	data, err := stages.ReadFile(ctx, store.Join(dir, name))
	if err != nil {
		return nil, err
	}
	s := &claimSource{dir: dir}
	if s.certificate, err = accounting.ParseCertificate(data); err != nil {
		return nil, refuse("has a certificate that cannot be read")
	}
	if err := s.hash(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", refuse("has a ledger that cannot be read"), err)
	}
	folder := store.Join(dir, manifest.LedgerFolder)
	l, err := ledger.Read(ctx, folder)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", refuse("has a ledger that cannot be read"), err)
	}
	s.protocol, s.earlier = l.Configuration(), l.Protocol().Earlier
	asked, err := stages.ReadFile(ctx, store.Join(folder, manifest.RequestFile))
	if err == nil {
		err = strictjson.Loose(asked, &s.request)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", refuse("has a ledger that cannot be read"), err)
	}
	if again, err := l.CertificateFile(s.certificate.Minor); err != nil || !bytes.Equal(again, data) || l.Torn() {
		return nil, refuse("has a certificate that is not, byte for byte, the one that its ledger gives")
	}
	if err := calibration.CheckProofs(ctx, l.Protocol()); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, refuse("has a bound in its ledger that does not hold when it is computed again")
	}
	before, err := stages.Earlier(ctx, folder)
	if err != nil {
		return nil, err
	}
	// Each protocol set aside had its chance to fail. A sum of failure probabilities without one of
	// them would be too small; bounds without samples cannot fail.
	for _, e := range before {
		if l.Protocol().KernelID != "" && e.ProtocolSHA256 != s.protocol && !slices.Contains(s.earlier, e) {
			return nil, refuse("has an earlier protocol in its ledger that the certificate does not count")
		}
	}
	return s, nil
}

// hash lists the ledger's files.
func (s *claimSource) hash(ctx context.Context) error {
	for _, name := range stages.LedgerFiles(ctx, s.dir) {
		digest, err := stages.TextDigest(ctx, store.Join(s.dir, name))
		if err != nil {
			return err
		}
		s.files = append(s.files, sourceFile{name, digest})
	}
	// Earlier protocols are copied first, and the ledger's own protocol after them: a copy that was
	// stopped must not seem to have fewer attempts behind it.
	before := manifest.LedgerFolder + "/" + manifest.EarlierFolder + "/"
	var last []sourceFile
	s.files = slices.DeleteFunc(s.files, func(f sourceFile) bool {
		own := !strings.HasPrefix(f.name, before)
		if own {
			last = append(last, f)
		}
		return own
	})
	s.files = append(s.files, last...)
	return nil
}

// differences says how the account's request differs from the certificate. A bound that does not
// depend on the number of examples holds for any number.
func (s *claimSource) differences(a Account, problem calibration.Problem) (differs []string, err error) {
	// Budgets and further epsilon count only where they are given: without them, any verification
	// of the claim will do.
	const there, here = "in the certificate", "here"
	c, run := s.certificate, problem.Run
	is := func(name string, was, asked any) {
		if was != asked {
			differs = append(differs, fmt.Sprintf("%s is %v %s, %v %s", name, was, there, asked, here))
		}
	}
	is("--epsilon", c.Epsilon, problem.Epsilon)
	is("--delta", c.Delta, problem.Delta)
	if a.AlsoEpsilon != nil {
		is("--also-epsilon", fmt.Sprint(s.request.AlsoEpsilon), fmt.Sprint(a.AlsoEpsilon))
	}
	is("--unit", c.Unit, problem.Unit)
	is("--max-per-owner", c.Run.MaxExamplesPerOwner, run.MaxExamplesPerOwner)
	// How often a batch is cut depends on the number of examples, and its cost in delta with it.
	if run.Sampler.Truncation != nil && c.Run.Sampler.Truncation != nil {
		is("the number of examples", c.Run.Examples, run.Examples)
	}
	sampler := stages.Differences(c.Run.Sampler, run.Sampler, there, here)
	if sampler == nil && c.PlanSHA256 != problem.PlanSHA256 {
		sampler = []string{"the sampler differs"}
	}
	differs = append(differs, sampler...)
	// By the matrix: other parameters of a kind, and other kinds, may give the same one.
	same, err := stages.SameMatrix(c.Run.Strategy, run.Strategy)
	if err != nil {
		return nil, err
	}
	if !same {
		differs = append(differs, "the strategy differs (--strategy, --bands)")
	}
	if a.NoiseMultiplier != 0 {
		is("--noise-multiplier", c.NoiseMultiplier, a.NoiseMultiplier)
	}
	if a.Samples != 0 {
		is("--samples", s.request.Samples, a.Samples)
	}
	if a.CPUTime != 0 {
		is("--cpu-time", cmp.Or(s.request.CPUTime, "absent"), a.CPUTime.String())
	}
	return differs, nil
}

// takeOver copies the certificate of another run directory with its ledger, after it has checked
// that the certificate holds and is for the requested claim. It draws no sample. The request in the
// copy is the account's own, so that the command counts as done when it is repeated.
func (c *claim) takeOver(ctx context.Context, result *AccountResult) error {
	s, err := readClaim(ctx, c.From)
	if err != nil {
		return err
	}
	differs, err := s.differences(c.Account, c.problem)
	if err != nil {
		return err
	}
	if differs != nil {
		return &ParamError{Package: "pipelines", Param: "from", Value: c.From,
			Rule: "has a certificate for something else: " + strings.Join(differs, "; ") + "; leave out --from for a verification of its own"}
	}
	if err := c.here.AgreesToAccount(c.problem.Run, c.problem.Unit, c.of, s.certificate.NoiseMultiplier); err != nil {
		return err
	}
	result.From, result.Earlier = c.From, s.earlier
	if c.set.DryRun {
		return nil
	}
	if c.jobs.translates {
		return ErrTranslated
	}
	if _, err := c.lookAt(ctx); err != nil {
		return err
	}
	if err := s.onlyOf(ctx, c.dir.path); err != nil {
		return err
	}
	if err := c.besides(ctx, s.certificate, result); err != nil {
		return err
	}
	copied := false // from then on the ledger stays
	return c.inRun(func(error) bool { return copied }, func(run manifest.Run) error {
		result.RunID = run.RunID.String()
		asked, err := c.request.For(s.certificate.Run.Strategy)
		if err != nil {
			return err
		}
		if err := s.copy(ctx, c.dir.path, asked); err != nil {
			// A new directory is left empty. An older one keeps the part, from which a repeated
			// command goes on.
			if c.here.RunID() == (stream.RunID{}) {
				err = errors.Join(err, store.RemoveAll(context.WithoutCancel(ctx), c.ledger()))
			}
			return err
		}
		copied = true
		return c.publish(s.certificate, result)
	})
}

// onlyOf refuses a run directory with files in its ledger that are not from the source: the
// certificate does not count samples that were seen elsewhere. A stopped copy may have left a part
// of the source's files.
func (s *claimSource) onlyOf(ctx context.Context, out string) error {
	for _, name := range stages.LedgerFiles(ctx, out) {
		if name == manifest.LedgerFolder+"/"+manifest.RequestFile { // each directory has a request of its own
			continue
		}
		digest, err := stages.TextDigest(ctx, store.Join(out, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !slices.Contains(s.files, sourceFile{name, digest}) {
			return &ParamError{Package: "pipelines", Param: "out", Value: out,
				Rule: fmt.Sprintf("must have no ledger of its own for --from %s, whose certificate does not count it: %s is there; give another --out", s.dir, name)}
		}
	}
	finished := store.Join(out, manifest.LedgerFolder, manifest.FinishedFolder)
	units, err := store.List(ctx, finished)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(units) > 0 {
		return &ParamError{Package: "pipelines", Param: "out", Value: out,
			Rule: fmt.Sprintf("must have no ledger of its own for --from %s: units of samples are in %s; give another --out", s.dir, finished)}
	}
	return nil
}

// copy copies the ledger. Earlier protocols come first and units last, so that a part of the copy
// is a ledger from which an account can go on.
func (s *claimSource) copy(ctx context.Context, out string, r stages.Request) error {
	asked, err := r.Encode()
	if err != nil {
		return err
	}
	for _, f := range s.files {
		name := store.Join(out, f.name)
		if err := store.MkdirAll(context.Background(), store.Dir(name), manifest.PublicDir); err != nil {
			return fmt.Errorf("pipelines: %w", err)
		}
		write := func(w io.Writer) error { return s.write(ctx, w, f) }
		if f.name == manifest.LedgerFolder+"/"+manifest.RequestFile {
			write = func(w io.Writer) error { _, err := w.Write(asked); return err }
		}
		if _, err := manifest.WriteFile(out, f.name, manifest.PublicFile, write); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file of the source, which must be unchanged since it was checked.
func (s *claimSource) write(ctx context.Context, w io.Writer, f sourceFile) error {
	from, err := store.Open(ctx, store.Join(s.dir, f.name))
	if err != nil {
		return err
	}
	defer from.Close()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, sum), store.Text(from)); err != nil {
		return err
	}
	if manifest.Digest(sum.Sum(nil)) != f.digest {
		return &ParamError{Package: "pipelines", Param: "from", Value: s.dir, Rule: f.name + " changed while it was copied; repeat the command"}
	}
	return nil
}
