package stages

import (
	"cmp"
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

	given   string // name of the part that is not there yet, see WithBatches
	claimed string // the examples of a given claim
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

// WithTable returns the contents with a table in their place that is to be published. The certificate is
// of the examples that run.json names.
func (p Present) WithTable(digest manifest.Digest, summary ownergraph.Summary) Present {
	p.table, p.given = &tableFacts{digest, summary}, manifest.BoundedFolder
	if p.certificate != nil && p.run != nil {
		p.claimed = p.run.Examples
	}
	return p
}

// WithBatches returns the contents with batches in their place that are to be formed.
func (p Present) WithBatches(spec sampling.Spec, of Examples) Present {
	_, params, _ := manifest.Params(manifest.BatchesParams{Scheme: spec}) // else zero, which no claim has
	p.batches, p.given = &formedBatches{spec, params, of}, manifest.BatchesFolder
	return p
}

// WithClaim returns the contents with a claim in their place that is to be certified. The noise multiplier is
// 0 if it is not known yet.
func (p Present) WithClaim(run accounting.Run, unit accounting.Unit, of Examples, noiseMultiplier float64) Present {
	p.certificate = &accounting.Certificate{Run: run, Unit: unit, NoiseMultiplier: noiseMultiplier}
	p.claimed, p.given = of.Identity, manifest.CertificateFile
	return p
}

// WithNoise returns the contents with noise in their place that is to be made.
func (p Present) WithNoise(params noise.Params) Present {
	p.noise, p.given = &params, manifest.NoiseFolder
	return p
}

// Agree refuses contents that are not of one training run: readers take the certificate in a directory to
// cover the batches and the noise beside it, and noise serves one training.
func (p Present) Agree() error {
	if c := p.certificate; c != nil {
		with := manifest.BatchesFolder
		if p.batches == nil {
			with = manifest.BoundedFolder
		}
		if differs := failed(p.agreement(c)); differs != nil {
			return p.disagree(manifest.CertificateFile, with, differs)
		}
	}
	if p.noise != nil {
		if err := p.noiseAgrees(); err != nil {
			return err
		}
	}
	before, identity := "", ""
	for _, part := range p.identities() {
		if before != "" && part.identity != identity {
			differs := fmt.Sprintf("%s is of examples %s, and %s of examples %s", before, identity, part.name, part.identity)
			return p.disagree(before, part.name, []string{differs})
		}
		before, identity = part.name, part.identity
	}
	return nil
}

// noiseAgrees compares the noise with the batches and the certificate.
func (p Present) noiseAgrees() error {
	with, sampler := manifest.BatchesFolder, (*sampling.Spec)(nil)
	switch {
	case p.batches != nil:
		sampler = &p.batches.sampler
	case p.certificate != nil:
		with, sampler = manifest.CertificateFile, &p.certificate.Run.Sampler
	default:
		return nil
	}
	t := p.noise.Training
	// Nothing says which sums such noise was added to, or will be: it may not be claimed for any.
	if !t.Known() && p.given != manifest.NoiseFolder {
		return p.disagree(manifest.NoiseFolder, with, []string{"it was written before the training run was known"})
	}
	var differs []string
	if t.Sampler != noise.Unknown {
		var was sampling.Spec
		if err := strictjson.Loose([]byte(t.Sampler), &was); err != nil {
			return fmt.Errorf("%s: sampler: %w", store.Join(p.out, manifest.NoiseFolder), err)
		}
		differs = Differences(was, *sampler, "in the recipe of the noise", "here")
	}
	if steps := sampler.Scheme().NumSteps(); p.noise.Steps != steps {
		differs = append(differs, fmt.Sprintf("the noise has %d steps, and a training takes a row of it in each of %d", p.noise.Steps, steps))
	}
	if differs != nil {
		return p.disagree(manifest.NoiseFolder, with, differs)
	}
	if p.certificate == nil {
		return nil
	}
	noising, err := noise.NoisingSHA256(p.certificate.Run.Strategy)
	if err != nil {
		return err
	}
	if noising != p.noise.NoisingSHA256 {
		differs = append(differs, "the noise is of another strategy than the claim")
	}
	// More noise than certified keeps the claim.
	if has := float64(p.noise.NoiseMultiplier); p.certificate.NoiseMultiplier > has {
		differs = append(differs, fmt.Sprintf("the noise multiplier is %v, and the claim needs %v", has, p.certificate.NoiseMultiplier))
	}
	if differs != nil {
		return p.disagree(manifest.NoiseFolder, manifest.CertificateFile, differs)
	}
	return nil
}

// identified is a part of the contents whose examples are known.
type identified struct{ name, identity string }

// identities returns the examples of each part, as far as they are known.
func (p Present) identities() (list []identified) {
	add := func(name, identity string) {
		if identity != "" && identity != noise.Unknown {
			list = append(list, identified{name, identity})
		}
	}
	if p.table != nil {
		add(manifest.BoundedFolder, p.table.examples().Identity)
	}
	if p.batches != nil {
		add(manifest.BatchesFolder, p.batches.of.Identity)
	}
	add(manifest.CertificateFile, p.claimed)
	if p.noise != nil {
		add(manifest.NoiseFolder, p.noise.Training.Examples)
	}
	return list
}

// Identity returns the examples of the batches or, without batches, of the bounded table, as run.json names
// them; "" if there is neither.
func (p Present) Identity() string {
	switch {
	case p.batches != nil:
		return p.batches.of.Identity
	case p.table != nil:
		return p.table.examples().Identity
	}
	return ""
}

// disagree returns the error for two parts of the contents that do not match. It names the one of them that
// is there already, with the way out.
func (p Present) disagree(part, with string, differs []string) error {
	if part == p.given {
		part = with
	}
	path, wayOut := store.Join(p.out, part), "give another --out"
	switch part {
	case manifest.CertificateFile:
		path = p.CertificatePath()
		wayOut = fmt.Sprintf("remove %s to give that claim up (its ledger stays, and counts), or give another --out", store.Base(path))
	case manifest.BatchesFolder:
		wayOut = "give the flags that the batches were formed with, remove the folder of batches, or give another --out"
	case manifest.NoiseFolder:
		wayOut = "noise serves one training run, and a new one needs noise and batches of its own: " + wayOut
	case manifest.BoundedFolder:
		wayOut = "give --bounded " + p.out + ", or another --out"
	}
	return Disagrees(path, differs, wayOut)
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

// SamplerText returns a sampler in the form of a recipe.
func SamplerText(s sampling.Spec) (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}

// Training returns the training of a run directory's noise, as far as the batches and the
// certificate in it tell.
func (p Present) Training() (t noise.Training, err error) {
	t = noise.Training{Examples: cmp.Or(p.Identity(), noise.Unknown), Sampler: noise.Unknown}
	switch {
	case p.batches != nil:
		t.Sampler, err = SamplerText(p.batches.sampler)
	case p.certificate != nil:
		if p.table == nil && p.run != nil && p.run.Examples != "" {
			t.Examples = p.run.Examples
		}
		t.Sampler, err = SamplerText(p.certificate.Run.Sampler)
	}
	return t, err
}
