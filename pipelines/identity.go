package pipelines

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"minsep/accounting"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/mechanism/noise"
	"minsep/sampling"
	"minsep/sampling/ownergraph"
	"minsep/sampling/stream"
	"minsep/transforms/noiseshards"
)

// present is what a run directory holds on which the parts of one training must agree. What is not there is nil.
type present struct {
	out         string
	run         *manifest.Run
	table       *tableFacts
	batches     *formedBatches
	certificate *accounting.Certificate
	noise       *noise.Params
}

// tableFacts are the public facts of a bounded table.
type tableFacts struct {
	digest  manifest.Digest // of its index
	summary ownergraph.Summary
}

// formedBatches are the public facts of batches.
type formedBatches struct {
	sampler sampling.Spec
	of      population
}

// population is what a claim depends on of a training's examples.
type population struct {
	identity string // as run.json names it; "" if nothing is known of the examples
	copies   int64  // of examples; 0 if not known
	most     int    // examples of one owner, at least 1
	numbered bool   // not of a table: nothing is known of owners
}

func (t *tableFacts) population() population {
	return population{identity: manifest.BoundedExamples(t.digest), copies: t.summary.KeptCopies, most: mostPerOwner(t.summary)}
}

func numberedPopulation(n int64) population {
	p := population{copies: n, most: 1, numbered: true}
	if n > 0 {
		p.identity = manifest.NumberedExamples(n)
	}
	return p
}

// of is the population of what batches are formed of.
func (x examples) of() population {
	if x.bounded == nil {
		return numberedPopulation(x.rows)
	}
	return (&tableFacts{x.bounded.Digest, x.bounded.Summary}).population()
}

// present reads what is in the run directory, but for own, which the command itself makes, and for what a plan makes again after
// it. Results that are not finished count as not there, but for noise; so do batches and noise of another run id, which nothing
// of this run uses.
func (o Options) present(ctx context.Context, own string) (p present, err error) {
	p.out = o.Out
	if o.translates() { // nothing is read or written there
		return p, nil
	}
	run, err := manifest.ReadRun(ctx, o.Out)
	switch {
	case err == nil:
		p.run = &run
	case !errors.Is(err, fs.ErrNotExist):
		return p, err
	}
	for _, part := range []struct {
		name string
		read func(path string) error
	}{
		{BoundedFolder, func(path string) (err error) { p.table, err = readTableFacts(ctx, path); return err }},
		{BatchesFolder, func(path string) (err error) { p.batches, err = p.readBatches(ctx, path); return err }},
		{CertificateFile, func(string) (err error) {
			if p.certificate, err = readCertificate(ctx, o.Out); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return err
		}},
		{NoiseFolder, func(path string) (err error) { p.noise, err = p.readNoise(ctx, path); return err }},
	} {
		if part.name == own || slices.Contains(o.replaced, part.name) {
			continue
		}
		path := store.Join(o.Out, part.name)
		if err := part.read(path); err != nil {
			return p, unusable(path, err)
		}
	}
	return p, nil
}

// ofAnotherRun says that a result is not of the run of the directory.
func (p present) ofAnotherRun(id stream.RunID) bool { return p.run != nil && p.run.RunID != id }

func readTableFacts(ctx context.Context, dir string) (*tableFacts, error) {
	if !manifest.Finished(dir) {
		return nil, nil
	}
	ix, err := manifest.Read(ctx, dir)
	if err != nil {
		return nil, err
	}
	t := new(tableFacts)
	if err := json.Unmarshal(ix.Facts, &t.summary); err != nil {
		return nil, fmt.Errorf("facts: %w", err)
	}
	t.digest, err = manifest.DigestOf(ctx, dir)
	return t, err
}

func (p present) readBatches(ctx context.Context, dir string) (*formedBatches, error) {
	if !manifest.Finished(dir) {
		return nil, nil
	}
	ix, err := manifest.Read(ctx, dir)
	if err != nil || p.ofAnotherRun(ix.RunID) {
		return nil, err
	}
	var params formParams
	var facts manifest.BatchesFacts
	if err := errors.Join(json.Unmarshal(ix.Params, &params), json.Unmarshal(ix.Facts, &facts)); err != nil {
		return nil, err
	}
	b := &formedBatches{sampler: params.Scheme, of: numberedPopulation(facts.Examples)}
	if digest, ofTable := ix.Inputs[BoundedFolder]; ofTable {
		b.of = population{identity: manifest.BoundedExamples(digest), most: 1}
		if p.table != nil && p.table.digest == digest {
			b.of = p.table.population()
		}
	}
	return b, params.Scheme.Validate()
}

// readNoise returns what the noise in a folder was made of. Noise that is not finished has a recipe already.
func (p present) readNoise(ctx context.Context, dir string) (*noise.Params, error) {
	switch {
	case manifest.Finished(dir):
		ix, err := manifest.Read(ctx, dir)
		if err != nil || p.ofAnotherRun(ix.RunID) {
			return nil, err
		}
		params := new(noise.Params)
		return params, json.Unmarshal(ix.Params, params)
	case manifest.Interrupted(dir):
		r, err := readRecipe(ctx, store.Join(dir, noiseshards.RecipeName))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil || p.ofAnotherRun(r.RunID) {
			return nil, err
		}
		return &r.Params, nil
	}
	return nil, nil
}

// samplerText is a sampler as a recipe holds it.
func samplerText(s sampling.Spec) (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}

// disagrees is the error for a run directory that holds what a command's parameters do not match.
func disagrees(path string, differs []string, wayOut string) error {
	return &ParamError{Package: "pipelines", Param: "out", Value: path, Rule: "does not match: " + strings.Join(differs, "; ") + ": " + wayOut}
}

// Ways out of what disagrees.
const (
	newDirectory = "give another --out"
	giveUpClaim  = "remove certificate.json to give that claim up (its ledger stays, and counts), or give another --out"
	giveUpForm   = "remove the folder of batches first, or give another --out"
)

// unclaimed says what of a population a certificate does not cover.
func unclaimed(c *accounting.Certificate, of population) (differs []string) {
	k := c.Run.MaxExamplesPerOwner
	if c.Run.Sampler.Truncation != nil && of.copies > 0 && c.Run.Examples != of.copies {
		differs = append(differs, fmt.Sprintf("the claim is for %d examples, there are %d", c.Run.Examples, of.copies))
	}
	if c.Unit != accounting.UnitExample && k < of.most {
		differs = append(differs, fmt.Sprintf("the claim is for %s, the bounded table has one with %d", c.Protected(), of.most))
	}
	if c.Run.Sampler.Kind().Owners == sampling.OwnersIfKnown && of.numbered && k > 1 {
		differs = append(differs, fmt.Sprintf("the claim is for %s, and batches of numbered examples know no owners", c.Protected()))
	}
	return differs
}

// agreesToForm refuses batches that do not match what is in the run directory.
func (p present) agreesToForm(spec sampling.Spec, of population) error {
	if p.table != nil && of.numbered {
		return &ParamError{Package: "pipelines", Param: "examples", Value: of.copies,
			Rule: fmt.Sprintf("must be left out: %s holds a bounded table, which batches of numbers know nothing of; give --bounded %s, or another --out", p.out, p.out)}
	}
	if c := p.certificate; c != nil {
		if differs := append(differences(c.Run.Sampler, spec, "in the certificate", "in the batches"), unclaimed(c, of)...); differs != nil {
			return disagrees(store.Join(p.out, CertificateFile), differs, giveUpClaim)
		}
	}
	return p.agreesWithNoise(spec, of)
}

// agreesToAccount refuses a claim that does not match what is in the run directory. The noise multiplier is 0 if it is not known yet.
func (p present) agreesToAccount(run accounting.Run, unit accounting.Unit, of population, noiseMultiplier float64) error {
	if b := p.batches; b != nil {
		differs := append(differences(run.Sampler, b.sampler, "in the claim", "in the batches"), unclaimed(&accounting.Certificate{Run: run, Unit: unit}, b.of)...)
		if of.identity != "" && of.identity != b.of.identity {
			differs = append(differs, fmt.Sprintf("the batches are of examples %s, the claim is of examples %s", b.of.identity, of.identity))
		}
		if differs != nil {
			return disagrees(store.Join(p.out, BatchesFolder), differs, giveUpForm)
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
		differs = append(differs, fmt.Sprintf("its noise multiplier is %v, the claim needs %v", has, noiseMultiplier))
	}
	if differs != nil {
		return disagrees(store.Join(p.out, NoiseFolder), differs, newDirectory)
	}
	return nil
}

// agreesWithNoise refuses a sampler and examples that are not those of the noise in the run directory.
func (p present) agreesWithNoise(spec sampling.Spec, of population) error {
	if p.noise == nil {
		return nil
	}
	t := p.noise.Training
	wayOut := "noise serves one training, and a new one needs noise and batches of its own: " + newDirectory
	if !t.Known() {
		return disagrees(store.Join(p.out, NoiseFolder), []string{"it was made before anything told which training it is for"}, wayOut)
	}
	var was sampling.Spec
	if err := json.Unmarshal([]byte(t.Sampler), &was); err != nil {
		return fmt.Errorf("pipelines: %s: sampler: %w", store.Join(p.out, NoiseFolder), err)
	}
	differs := differences(was, spec, "in the recipe of the noise", "here")
	if of.identity != "" && of.identity != t.Examples {
		differs = append(differs, fmt.Sprintf("its examples are %s, here they are %s", t.Examples, of.identity))
	}
	if differs == nil {
		return nil
	}
	return disagrees(store.Join(p.out, NoiseFolder), differs, wayOut)
}

// training is what the noise of a run directory is for, as far as the batches and the certificate in it tell. It refuses batches and a certificate
// that contradict each other.
func (p present) training() (t noise.Training, err error) {
	t = noise.Training{Examples: noise.Unknown, Sampler: noise.Unknown}
	switch {
	case p.batches != nil:
		t.Examples = p.batches.of.identity
		if t.Sampler, err = samplerText(p.batches.sampler); err != nil {
			return t, err
		}
		if c := p.certificate; c != nil {
			if differs := append(differences(c.Run.Sampler, p.batches.sampler, "in the certificate", "in the batches"), unclaimed(c, p.batches.of)...); differs != nil {
				return t, disagrees(p.out, differs, newDirectory+", with batches and a certificate of one training")
			}
		}
	case p.certificate != nil:
		if p.run != nil && p.run.Examples != "" {
			t.Examples = p.run.Examples
		}
		if t.Sampler, err = samplerText(p.certificate.Run.Sampler); err != nil {
			return t, err
		}
		if p.table != nil {
			if differs := unclaimed(p.certificate, p.table.population()); differs != nil {
				return t, disagrees(store.Join(p.out, CertificateFile), differs, giveUpClaim)
			}
		}
	}
	if p.table != nil && t.Examples != manifest.BoundedExamples(p.table.digest) {
		switch {
		case p.batches != nil:
			return t, disagrees(store.Join(p.out, BatchesFolder), []string{"the bounded table beside them is not the one that they were formed of"}, newDirectory)
		default: // of the table as it is now
			t.Examples = manifest.BoundedExamples(p.table.digest)
		}
	}
	return t, nil
}

// registry opens the registry of the root key.
func (o Options) registry() (*noise.Registry, error) {
	root, err := stream.ReadKeyFile(o.KeyFile)
	if err != nil {
		return nil, err
	}
	return noise.OpenRegistry(root, o.KeyFile)
}

// registered refuses, before anything is written, a registry that cannot be written to, and a training that is not the one which the
// registry has for the run id: that of the run directory, or the one that is asked for. Empty fields of want are not compared.
func (o Options) registered(ctx context.Context, want noise.Record) error {
	g, err := o.registry()
	if err != nil || o.translates() {
		return err
	}
	if err := g.Writable(o.DryRun); err != nil {
		return err
	}
	want.RunID = o.RunID
	if want.RunID == (stream.RunID{}) {
		run, err := manifest.ReadRun(ctx, o.Out)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a new id
		}
		if err != nil {
			return err
		}
		want.RunID = run.RunID
	}
	return g.Check(want)
}

// realPath is one name for a run directory, whether it is there or not.
func realPath(dir string) string {
	if real, err := store.Real(dir); err == nil {
		return real
	}
	abs, err := store.Abs(dir)
	if err != nil {
		return dir
	}
	if parent, err := store.Real(store.Dir(abs)); err == nil {
		return store.Join(parent, store.Base(abs))
	}
	return abs
}

// secretOf is what keeps the SHA-256 of a secret index from telling its contents: 32 bytes that only the root key gives, the
// same for a run that is repeated.
func secretOf(root stream.Root, run stream.RunID, folder string) *manifest.Digest {
	secret := manifest.Digest(root.Key(run, [32]byte{}, "index of "+folder).Commitment())
	return &secret
}

// secretPromise checks that the SHA-256 of a secret index, which public files carry, tells nothing of its contents.
func secretPromise(ix *manifest.Index) sampling.Promise {
	p := sampling.Promise{Name: "blinded", Rule: "the index holds 32 bytes that nobody can guess, so that its SHA-256 in public files does not tell what is in it"}
	p.Held = ix.Secret != nil && !bytes.Equal(ix.Secret[:], make([]byte, len(ix.Secret)))
	if !p.Held {
		p.Broken = 1
	}
	return p
}
