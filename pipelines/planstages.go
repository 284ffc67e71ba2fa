package pipelines

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"minsep/accounting"
	"minsep/accounting/ledger"
	"minsep/accounting/verification"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/mechanism"
	"minsep/sampling/stream"
	"minsep/transforms/noiseshards"
)

// StrategyFolder is the folder of a plan's strategy in its run directory.
const StrategyFolder = "strategy"

// StrategyFormat is the format of its index.
const StrategyFormat = "minsep-strategy/1"

const strategyName = "strategy.json"

// planStage is a stage as a plan runs it.
type planStage struct {
	name string
	path string // of what it leaves

	// begun says of a result that is not finished whether there is a part of it to go on with; nil: there never is.
	begun func(ctx context.Context) bool

	// What run.json says of a finished result.

	files  func(ctx context.Context) []string                 // that vouch for it, in the run directory
	params func(ctx context.Context) (manifest.Digest, error) // SHA-256 of its parameters
	inputs map[string]manifest.Digest                         // of the plan that it is made from
	from   map[string]string                                  // what else, by name: files of the stages before it

	// look says whether a finished result is there, and what of it is not what the stage would make.
	look func(ctx context.Context) (there bool, differs []string, err error)
	run  func(ctx context.Context, o Options) error
	// report takes what there is to say from a finished result, and returns the number of its files.
	report func(ctx context.Context) (files int, err error)
}

func (r *planRun) stageOf(name string) (s planStage) {
	switch name {
	case "bound":
		s = r.boundStage()
	case "strategy":
		s = r.strategyStage()
	case "account":
		s = r.accountStage()
	case "form":
		s = r.formStage()
	case "noise":
		s = r.noiseStage()
	}
	s.name = name
	if s.begun == nil {
		s.begun = func(context.Context) bool { return false }
	}
	if s.files == nil { // of a folder with an index
		s.files = func(context.Context) []string { return []string{store.Base(s.path) + "/" + manifest.IndexName} }
		s.params = func(ctx context.Context) (manifest.Digest, error) {
			ix, err := manifest.Read(ctx, s.path)
			if err != nil {
				return manifest.Digest{}, err
			}
			return ix.ParamsSHA256, nil
		}
	}
	return s
}

// Names of the files by which a stage names what it was made from.
const (
	boundedIndex  = BoundedFolder + "/" + manifest.IndexName
	strategyIndex = StrategyFolder + "/" + manifest.IndexName
)

// withTable adds the bounded table to what a stage is made from, if the plan has one.
func (p Plan) withTable(from map[string]string) map[string]string {
	if p.Graph != nil {
		from[BoundedFolder] = boundedIndex
	}
	return from
}

// some are the inputs of those names that a plan has.
func (r *planRun) some(name string) map[string]manifest.Digest {
	if d, ok := r.inputs[name]; ok {
		return map[string]manifest.Digest{name: d}
	}
	return nil
}

// folder is a result that has an index, held against what it should have.
type folderResult struct {
	dir, format string
	params      any
	inputs      map[string]manifest.Digest
}

// look compares the folder's index with the plan and every file with the index. It does not say how large files are: those of
// batches tell how large the batches are.
func (f folderResult) look(ctx context.Context, run stream.RunID) (ix *manifest.Index, differs []string, err error) {
	if !manifest.Finished(f.dir) {
		return nil, nil, nil
	}
	if ix, err = manifest.Read(ctx, f.dir); err != nil {
		return nil, nil, err
	}
	params, digest, err := manifest.Params(f.params)
	if err != nil {
		return nil, nil, err
	}
	if ix.Format != f.format {
		differs = append(differs, fmt.Sprintf("its format is %s, this version writes %s", ix.Format, f.format))
	}
	if ix.RunID != run {
		differs = append(differs, "it is of another run")
	}
	if ix.ParamsSHA256 != digest {
		differs = append(differs, jsonDifferences(ix.Params, params)...)
	}
	for name, want := range f.inputs {
		if ix.Inputs[name] != want {
			differs = append(differs, "it was made from another "+name)
		}
	}
	if len(ix.Inputs) != len(f.inputs) {
		differs = append(differs, "it was made from other inputs")
	}
	others, err := unlisted(ctx, ix, f.dir)
	if err != nil {
		return nil, nil, err
	}
	if others != nil {
		differs = append(differs, listed(others)+" not in its index"+moveAway)
	}
	if broken := brokenFiles(ctx, ix, f.dir); broken != nil {
		differs = append(differs, listed(broken)+" not what its index says")
	}
	return ix, differs, nil
}

func filesOf(ctx context.Context, dir string) (int, error) {
	ix, err := manifest.Read(ctx, dir)
	if err != nil {
		return 0, err
	}
	return len(ix.Files), nil
}

func (r *planRun) path(folder string) string { return store.Join(r.options.Out, folder) }

func (r *planRun) boundStage() planStage {
	dir, bound := r.path(BoundedFolder), r.plan.bound()
	return planStage{
		path:   dir,
		inputs: r.some("graph"),
		look: func(ctx context.Context) (bool, []string, error) {
			ix, differs, err := folderResult{dir, manifest.BoundedFormat, bound.Bound, nil}.look(ctx, r.run.RunID)
			return ix != nil, differs, err
		},
		run: func(ctx context.Context, o Options) error { _, err := bound.Run(ctx, o); return err },
		report: func(ctx context.Context) (int, error) {
			b, err := manifest.OpenBounded(ctx, dir)
			if err != nil {
				return 0, err
			}
			r.result.Examples, r.result.Copies = b.Rows, b.Summary.KeptCopies
			return filesOf(ctx, dir)
		},
	}
}

func (r *planRun) strategyStage() planStage {
	dir, params := r.path(StrategyFolder), r.plan.Strategy
	inputs := r.some("workload")
	return planStage{
		path:   dir,
		inputs: inputs,
		look: func(ctx context.Context) (bool, []string, error) {
			ix, differs, err := folderResult{dir, StrategyFormat, params, inputs}.look(ctx, r.run.RunID)
			return ix != nil, differs, err
		},
		run: func(ctx context.Context, o Options) error {
			index := manifest.Index{Format: StrategyFormat, Inputs: inputs}
			var err error
			if index.Params, index.ParamsSHA256, err = manifest.Params(params); err != nil {
				return err
			}
			return o.write(StrategyFolder, false, func(_ manifest.Run, stage *manifest.Stage) (manifest.Index, error) {
				s, err := makeStrategy(ctx, params)
				if err != nil {
					return index, strategyFault(params, err)
				}
				file, err := stage.Write(strategyName, func(w io.Writer) error { return json.NewEncoder(w).Encode(s) })
				index.Files = []manifest.File{file}
				return index, err
			})
		},
		report: func(ctx context.Context) (int, error) { return filesOf(ctx, dir) },
	}
}

func makeStrategy(ctx context.Context, p mechanism.Params) (*mechanism.Strategy, error) {
	workload, err := ReadWorkloadFile(ctx, p)
	if err != nil {
		return nil, err
	}
	return p.Make(ctx, workload)
}

// strategyFault makes a strategy that is too large to make a fault of its parameters.
func strategyFault(p mechanism.Params, err error) error {
	if errors.Is(err, mechanism.ErrTooLarge) {
		return fmt.Errorf("%w: %w", &ParamError{Package: "pipelines", Param: "strategy", Value: p.Kind, Rule: "must be smaller"}, err)
	}
	return err
}

func (r *planRun) accountStage() planStage {
	path, account := r.path(CertificateFile), r.plan.account()
	return planStage{
		path: path,
		begun: func(ctx context.Context) bool {
			_, err := store.Stat(ctx, r.path(LedgerFolder+"/"+ledger.ProtocolFile))
			return err == nil
		},
		files: func(ctx context.Context) []string {
			return append([]string{CertificateFile}, ledgerFiles(ctx, r.options.Out)...)
		},
		params: func(ctx context.Context) (manifest.Digest, error) {
			return compactDigest(ctx, r.path(LedgerFolder+"/"+requestName))
		},
		from: r.plan.withTable(map[string]string{StrategyFolder: strategyIndex}),
		look: func(ctx context.Context) (bool, []string, error) {
			certificate, err := ReadFile(ctx, path)
			if errors.Is(err, fs.ErrNotExist) {
				return false, nil, nil
			}
			if err != nil {
				return false, nil, err
			}
			differs, err := account.differences(ctx, r.options, certificate)
			return true, differs, err
		},
		run: func(ctx context.Context, o Options) error {
			result, err := account.Run(ctx, o)
			if err != nil {
				result.Out, result.Epsilon, result.Delta = o.Out, account.Epsilon, account.Delta
				r.result.NotCertified = &result
			}
			return err
		},
		report: func(ctx context.Context) (int, error) {
			c, err := r.certificate(ctx)
			if err != nil {
				return 0, err
			}
			r.result.NoiseMultiplier, r.result.Epsilon, r.result.Delta = c.NoiseMultiplier, c.Epsilon, c.Delta
			r.result.Status, r.result.Reason, r.result.Protects = string(c.Status), c.Reason, c.Protected()
			return 1, nil
		},
	}
}

// differences says what of a certificate is not what the account would write: another request, or bytes that the ledger does not give.
func (a Account) differences(ctx context.Context, o Options, certificate []byte) (differs []string, err error) {
	here, err := o.present(ctx, CertificateFile)
	if err != nil {
		return nil, err
	}
	_, r, _, err := a.problem(ctx, here)
	if err != nil {
		return nil, err
	}
	book := store.Join(o.Out, LedgerFolder)
	want, err := r.encode()
	if err != nil {
		return nil, err
	}
	got, err := ReadFile(ctx, store.Join(book, requestName))
	if err != nil {
		return []string{"its ledger cannot be read"}, nil
	}
	if !bytes.Equal(got, want) {
		return jsonDifferences(got, want), nil
	}
	l, err := ledger.Read(ctx, book)
	if err != nil {
		return []string{"its ledger cannot be read"}, nil
	}
	if l.Torn() {
		differs = append(differs, LedgerFolder+"/"+ledger.UnitsFile+" ends in a part of a line")
	}
	again, err := l.Certificate()
	if err != nil {
		return []string{"its ledger gives no certificate"}, nil
	}
	b, err := again.Encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(b, certificate) {
		differs = append(differs, "its bytes are not those that its ledger gives")
	}
	if verification.CheckProofs(ctx, l.Protocol()) != nil {
		differs = append(differs, "a bound in its ledger does not hold when it is computed again")
	}
	return differs, nil
}

func (r *planRun) certificate(ctx context.Context) (*accounting.Certificate, error) {
	b, err := ReadFile(ctx, r.path(CertificateFile))
	if err != nil {
		return nil, err
	}
	return accounting.ParseCertificate(b)
}

func (r *planRun) formStage() planStage {
	dir, form := r.path(BatchesFolder), r.plan.form()
	return planStage{
		path: dir,
		from: r.plan.withTable(map[string]string{}),
		look: func(ctx context.Context) (bool, []string, error) {
			if !manifest.Finished(dir) {
				return false, nil, nil
			}
			want, source, err := form.planned(ctx)
			if err != nil {
				return false, nil, err
			}
			ix, differs, err := folderResult{dir, manifest.BatchesFormat, formParams{want.Scheme}, source.inputs()}.look(ctx, r.run.RunID)
			if err != nil || differs != nil {
				return ix != nil, differs, err
			}
			b, err := manifest.OpenBatches(ctx, dir)
			if err != nil {
				return false, nil, err
			}
			parquet := slices.ContainsFunc(ix.Files, func(f manifest.File) bool { return strings.HasSuffix(f.Name, ".parquet") })
			if b.Facts.Examples != want.Examples || b.Facts.Shards != want.Shards || parquet != form.Parquet {
				differs = append(differs, "its examples, shards or kinds of files are others")
			}
			return true, differs, nil
		},
		run: func(ctx context.Context, o Options) error { _, err := form.Run(ctx, o); return err },
		report: func(ctx context.Context) (int, error) {
			f, _, err := form.planned(ctx)
			if err != nil {
				return 0, err
			}
			r.result.Examples, r.result.Copies, r.result.ExpectedBatchSize = f.Examples, f.Copies, f.ExpectedBatchSize
			return filesOf(ctx, dir)
		},
	}
}

func (r *planRun) noiseStage() planStage {
	dir := r.path(NoiseFolder)
	noise := func(ctx context.Context) (Noise, error) {
		c, err := r.certificate(ctx)
		if err != nil {
			return Noise{}, err
		}
		return r.plan.noise(c.NoiseMultiplier), nil
	}
	return planStage{
		path:  dir,
		begun: func(context.Context) bool { return manifest.Interrupted(dir) },
		from:  map[string]string{StrategyFolder: strategyIndex, "certificate": CertificateFile},
		look: func(ctx context.Context) (bool, []string, error) {
			if !manifest.Finished(dir) {
				return false, nil, nil
			}
			n, err := noise(ctx)
			if err != nil {
				return false, nil, err
			}
			return n.differences(ctx, dir, r.run.RunID, r.options.KeyFile)
		},
		run: func(ctx context.Context, o Options) error {
			n, err := noise(ctx)
			if err != nil {
				return err
			}
			_, err = n.Run(ctx, o)
			return err
		},
		report: func(ctx context.Context) (int, error) { return filesOf(ctx, dir) },
	}
}

// differences says what of a folder of noise is not what the stage would write; without a key, but for its commitment to the key.
func (n Noise) differences(ctx context.Context, dir string, run stream.RunID, keyFile string) (there bool, differs []string, err error) {
	here, err := Options{Out: store.Dir(dir)}.present(ctx, NoiseFolder)
	if err != nil {
		return false, nil, err
	}
	training, err := here.training()
	if err != nil {
		return false, nil, err
	}
	want, facts, err := n.recipe(ctx, training)
	if err != nil {
		return false, nil, err
	}
	ix, differs, err := folderResult{dir, NoiseFormat, want.Params, nil}.look(ctx, run)
	if err != nil || differs != nil {
		return ix != nil, differs, err
	}
	got, err := readRecipe(ctx, store.Join(dir, noiseshards.RecipeName))
	if err != nil {
		return false, nil, err
	}
	want.RunID, want.KeyFile, want.KeyCommitment = run, got.KeyFile, got.KeyCommitment // where the key lies does not matter
	if keyFile != "" {
		root, err := stream.ReadKeyFile(keyFile)
		if err != nil {
			return false, nil, err
		}
		want.Bind(root, run, got.KeyFile)
	}
	same, err := want.SHA256()
	if err != nil {
		return false, nil, err
	}
	if have, err := got.SHA256(); err != nil || have != same {
		differs = append(differs, "its recipe is another one")
	}
	var has NoiseFacts
	if err := json.Unmarshal(ix.Facts, &has); err != nil {
		return false, nil, fmt.Errorf("pipelines: %s: facts: %w", dir, err)
	}
	if has != facts {
		differs = append(differs, "its shards, steps of a file or element type are others")
	}
	return true, differs, nil
}
