package stages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"minsep/internal/accounting"
	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/ownergraph"
	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/strictjson"
	"minsep/sampling"
)

// Present has the contents of a run directory on which the parts of one training run must
// agree. A missing one is nil.
type Present struct {
	out         string
	run         *manifest.Run
	table       *tableFacts
	batches     *formedBatches
	certificate *accounting.Certificate
	noise       *noise.Params
	secrets     []secretFolder // batches and noise, be they of this run or not
}

// Certificate returns the certificate, nil if there is none.
func (p Present) Certificate() *accounting.Certificate { return p.certificate }

// CertificatePath returns the path of Certificate's file.
func (p Present) CertificatePath() string {
	name, _ := FindClaim(context.Background(), p.out) // else "", and the certificate was not read either
	return store.Join(p.out, name)
}

// tableFacts are the public facts of a bounded table.
type tableFacts struct {
	digest  manifest.Digest // of its index
	summary ownergraph.Summary
}

// formedBatches are the public facts of batches.
type formedBatches struct {
	sampler sampling.Spec
	params  manifest.Digest // of their index
	of      Examples
}

// Examples has the facts about a training run's examples on which a claim depends.
type Examples struct {
	Identity     string // as run.json names them; "" if nothing is known of them
	Copies       int64  // of examples, or of one pool's; 0 if not known
	MostPerOwner int    // examples of one owner, at least 1; 0 if nothing but Identity is known
	Numbered     bool   // not of a table: nothing is known of owners
	Copied       bool   // some example is there more than once
	Owners       int64  // that have an example; 0 if not known
	Shared       bool   // some example has several owners
	Pools        bool   // in pools, as rotation needs them
}

// Protected returns the number of owners, or of examples if a claim is for those, 0 if it is not
// known.
func (e Examples) Protected(unit accounting.Unit) int64 {
	if unit == accounting.UnitExample || e.Numbered {
		return e.Copies
	}
	return e.Owners
}

// examples returns the facts about a table's examples.
func (t *tableFacts) examples() Examples {
	return Examples{
		Identity:     manifest.BoundedExamples(t.digest),
		Copies:       takingPart(t.summary),
		MostPerOwner: MostPerOwner(t.summary),
		Copied:       Copied(t.summary),
		Owners:       ownerSizes(t.summary).Total(),
		Shared:       Shared(t.summary),
		Pools:        t.summary.Coverage != nil,
	}
}

// numberedExamples returns the facts about n numbers, each its own owner.
func numberedExamples(n int64) Examples {
	p := Examples{Copies: n, MostPerOwner: 1, Numbered: true}
	if n > 0 {
		p.Identity = manifest.NumberedExamples(n)
	}
	return p
}

// Examples returns the facts about the examples of the source.
func (s Source) Examples() Examples {
	if s.Table == nil {
		return numberedExamples(s.Rows)
	}
	return (&tableFacts{s.Table.Digest, s.Table.Summary}).examples()
}

// ReadPresent reads the contents of the run directory out, except the results in without, such as
// the one that a command itself makes; manifest.CertificateFile stands for both of [ClaimFiles].
// Unfinished results count as missing, except noise. Batches and noise of another run id are of no
// use to this run: [Present.OneTraining] refuses them, and nothing else compares them.
func ReadPresent(ctx context.Context, out string, without ...string) (p Present, err error) {
	p.out = out
	run, err := manifest.ReadRun(ctx, out)
	switch {
	case err == nil:
		p.run = &run
	case !errors.Is(err, fs.ErrNotExist):
		return p, err
	}
	// The table comes first: the facts of batches of a table depend on it.
	for _, part := range []struct {
		name string
		read func(path string) error
	}{
		{manifest.BoundedFolder, func(path string) (err error) { p.table, err = readTableFacts(ctx, path); return err }},
		{manifest.BatchesFolder, func(path string) (err error) { p.batches, err = p.readBatches(ctx, path); return err }},
		{manifest.CertificateFile, func(string) (err error) {
			switch p.certificate, err = ReadCertificate(ctx, out); {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			}
			return CheckClaim(ctx, out)
		}},
		{manifest.NoiseFolder, func(path string) (err error) { p.noise, err = p.readNoise(ctx, path); return err }},
	} {
		if slices.Contains(without, part.name) {
			continue
		}
		path := store.Join(out, part.name)
		if err := part.read(path); err != nil {
			return p, Unusable(path, err)
		}
	}
	return p, nil
}

// ofAnotherRun reports whether a result belongs to another run than the directory.
func (p Present) ofAnotherRun(id stream.RunID) bool { return p.run != nil && p.run.RunID != id }

// readTableFacts returns the facts of a finished table, nil if there is none.
func readTableFacts(ctx context.Context, dir string) (*tableFacts, error) {
	ix, err := manifest.ReadFinished(ctx, dir)
	if ix == nil || err != nil {
		return nil, err
	}
	t := new(tableFacts)
	if err := strictjson.Loose(ix.Facts, &t.summary); err != nil {
		return nil, fmt.Errorf("facts: %w", err)
	}
	t.digest, err = manifest.DigestOf(ctx, dir)
	return t, err
}

// readBatches returns the facts of finished batches, nil if there are none or they belong to
// another run.
func (p *Present) readBatches(ctx context.Context, dir string) (*formedBatches, error) {
	ix, err := manifest.ReadFinished(ctx, dir)
	if ix == nil || err != nil {
		return nil, err
	}
	p.secrets = append(p.secrets, indexedFolder(dir, ix))
	if p.ofAnotherRun(ix.RunID) {
		return nil, nil
	}
	var params manifest.BatchesParams
	var facts manifest.BatchesFacts
	if err := errors.Join(strictjson.Loose(ix.Params, &params), strictjson.Loose(ix.Facts, &facts)); err != nil {
		return nil, err
	}
	b := &formedBatches{params.Scheme, ix.ParamsSHA256, numberedExamples(facts.Examples)}
	if digest, ofTable := ix.Inputs[manifest.BoundedFolder]; ofTable {
		b.of = Examples{Identity: manifest.BoundedExamples(digest)}
		if p.table != nil && p.table.digest == digest {
			b.of = p.table.examples()
		}
	}
	return b, params.Scheme.Validate()
}

// FormedOf returns the examples of a run's finished batches, as run.json names them, or "" if there
// are none.
func FormedOf(ctx context.Context, dir string, run manifest.Run) (identity string, err error) {
	b, err := (&Present{run: &run}).readBatches(ctx, store.Join(dir, manifest.BatchesFolder))
	if err != nil || b == nil {
		return "", err
	}
	return b.of.Identity, nil
}

// readNoise returns the sources of the noise in a folder. Noise that is not finished has a recipe
// already.
func (p *Present) readNoise(ctx context.Context, dir string) (*noise.Params, error) {
	ix, err := manifest.ReadFinished(ctx, dir)
	if err != nil {
		return nil, err
	}
	if ix != nil {
		p.secrets = append(p.secrets, indexedFolder(dir, ix))
		if p.ofAnotherRun(ix.RunID) {
			return nil, nil
		}
		params := new(noise.Params)
		return params, strictjson.Loose(ix.Params, params)
	}
	// A training may have read the part that is there.
	if interrupted, err := manifest.Interrupted(ctx, dir); err != nil || !interrupted {
		return nil, err
	}
	r, err := ReadRecipe(ctx, store.Join(dir, manifest.RecipeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p.secrets = append(
		p.secrets,
		secretFolder{
			dir,
			r.RunID,
			func(root stream.Root) bool { return r.Key(root, r.RunID).Commitment() == r.KeyCommitment },
		},
	)
	if p.ofAnotherRun(r.RunID) {
		return nil, nil
	}
	return &r.Params, nil
}

// SamplerText returns a sampler in the form of a recipe.
func SamplerText(s sampling.Spec) (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}

// Disagrees returns the error for a run directory with contents that do not match a command's
// parameters.
func Disagrees(path string, differs []string, wayOut string) error {
	return &ParamError{
		Param: "out",
		Value: path,
		Rule:  "does not match: " + strings.Join(differs, "; ") + ": " + wayOut,
	}
}

// Ways out of disagreements.
const (
	NewDirectory = "give another --out"
	giveUpForm   = "give the flags that the batches were formed with, remove the folder of batches, or give another --out"
)

// claimDisagrees returns the error for a certificate that does not match a command's parameters.
func (p Present) claimDisagrees(differs []string) error {
	path := p.CertificatePath()
	return Disagrees(
		path,
		differs,
		fmt.Sprintf(
			"remove %s to give that claim up (its ledger stays, and counts), or give another --out",
			store.Base(path),
		),
	)
}

// AgreesToForm refuses batches that do not match the run directory.
func (p Present) AgreesToForm(spec sampling.Spec, of Examples) error {
	if p.table != nil && of.Numbered {
		return param.Fault(
			"examples",
			of.Copies,
			"must be left out: %s holds a bounded table, and numbered examples do not use it; give --bounded %s, or another --out",
			p.out,
			p.out,
		)
	}
	if c := p.certificate; c != nil {
		if differs := failed(compared(c, &spec, of)); differs != nil {
			return p.claimDisagrees(differs)
		}
	}
	return p.agreesWithNoise(spec, of)
}

// AgreesToNoise refuses noise with another number of steps than the batches: a training takes one
// row of noise in each step.
func (p Present) AgreesToNoise(steps int) error {
	if p.batches == nil {
		return nil
	}
	if has := p.batches.sampler.Scheme().NumSteps(); has != steps {
		return param.Fault(
			"steps",
			steps,
			"must be %d, as the batches in %s have: a training takes a row of the noise in each step",
			has,
			p.out,
		)
	}
	return nil
}

// AgreesToAccount refuses a claim that does not match the run directory. The noise
// multiplier is 0 if it is not known yet.
func (p Present) AgreesToAccount(
	run accounting.Run,
	unit accounting.Unit,
	of Examples,
	noiseMultiplier float64,
) error {
	if b := p.batches; b != nil {
		differs := failed(p.agreement(&accounting.Certificate{Run: run, Unit: unit}))
		if of.Identity != "" && of.Identity != b.of.Identity {
			differs = append(
				differs,
				fmt.Sprintf(
					"the batches are of examples %s, and the claim is of examples %s",
					b.of.Identity,
					of.Identity,
				),
			)
		}
		if differs != nil {
			return Disagrees(store.Join(p.out, manifest.BatchesFolder), differs, giveUpForm)
		}
	}
	if p.noise == nil {
		return nil
	}
	if err := p.agreesWithNoise(run.Sampler, of); err != nil {
		return err
	}
	noising, err := noise.NoisingSHA256(run.Strategy)
	if err != nil {
		return err
	}
	var differs []string
	if noising != p.noise.NoisingSHA256 {
		differs = append(differs, "it was made with another strategy")
	}
	if has := float64(p.noise.NoiseMultiplier); noiseMultiplier > has {
		differs = append(
			differs,
			fmt.Sprintf("its noise multiplier is %v, and the claim needs %v", has, noiseMultiplier),
		)
	}
	if differs != nil {
		return Disagrees(store.Join(p.out, manifest.NoiseFolder), differs, NewDirectory)
	}
	return nil
}

// agreesWithNoise refuses a sampler and examples other than those of the noise in the run
// directory.
func (p Present) agreesWithNoise(spec sampling.Spec, of Examples) error {
	if p.noise == nil {
		return nil
	}
	t := p.noise.Training
	wayOut := "noise serves one training run, and a new one needs noise and batches of its own: " + NewDirectory
	// Nothing says which sums that noise was added to, or will be: it may not be claimed for any.
	if !t.Known() {
		return Disagrees(
			store.Join(p.out, manifest.NoiseFolder),
			[]string{"it was written before the training run was known"},
			wayOut,
		)
	}
	var was sampling.Spec
	if err := strictjson.Loose([]byte(t.Sampler), &was); err != nil {
		return fmt.Errorf("%s: sampler: %w", store.Join(p.out, manifest.NoiseFolder), err)
	}
	differs := Differences(was, spec, "in the recipe of the noise", "here")
	if of.Identity != "" && of.Identity != t.Examples {
		differs = append(
			differs,
			fmt.Sprintf("its examples are %s, and here they are %s", t.Examples, of.Identity),
		)
	}
	if differs == nil {
		return nil
	}
	return Disagrees(store.Join(p.out, manifest.NoiseFolder), differs, wayOut)
}

// Training returns the training of a run directory's noise, as far as the batches and the
// certificate in it tell. It refuses batches and a certificate that contradict each other.
func (p Present) Training() (t noise.Training, err error) {
	t = noise.Training{Examples: noise.Unknown, Sampler: noise.Unknown}
	switch {
	case p.batches != nil:
		t.Examples = p.batches.of.Identity
		if t.Sampler, err = SamplerText(p.batches.sampler); err != nil {
			return t, err
		}
		if c := p.certificate; c != nil {
			if differs := failed(p.agreement(c)); differs != nil {
				return t, Disagrees(
					p.out,
					differs,
					NewDirectory+", with batches and a certificate of one training run",
				)
			}
		}
	case p.certificate != nil:
		if p.run != nil && p.run.Examples != "" {
			t.Examples = p.run.Examples
		}
		if t.Sampler, err = SamplerText(p.certificate.Run.Sampler); err != nil {
			return t, err
		}
		if p.table != nil {
			if differs := failed(p.agreement(p.certificate)); differs != nil {
				return t, p.claimDisagrees(differs)
			}
		}
	}
	if p.table != nil && t.Examples != manifest.BoundedExamples(p.table.digest) {
		switch {
		case p.batches != nil:
			return t, Disagrees(
				store.Join(p.out, manifest.BatchesFolder),
				[]string{"the bounded table beside them is not the table from which they were formed"},
				NewDirectory,
			)
		default: // of the table as it is now
			t.Examples = manifest.BoundedExamples(p.table.digest)
		}
	}
	return t, nil
}
