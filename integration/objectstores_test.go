package integration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/google/go-cmp/cmp"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/parquet-go/parquet-go"

	"minsep/integration/objectstores"
	"minsep/internal/graphio"
	"minsep/internal/inspect"
	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/pipelines"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/store/gs"
	"minsep/internal/store/s3"
	"minsep/internal/stream"
	"minsep/internal/testrun"
	"minsep/mechanism"
	"minsep/sampling"
)

// objectStores are services in this process, by scheme, each with a bucket.
func objectStores(t *testing.T, kinds ...string) map[string]*objectstores.Faults {
	t.Helper()
	ctx := context.Background()
	limits := store.Limits{Attempts: 6, Wait: time.Millisecond, Attempt: 20 * time.Second, Total: time.Minute}
	serve := func(f *objectstores.Faults) string {
		server := httptest.NewServer(f)
		t.Cleanup(server.Close)
		return server.URL
	}
	fake := must.Get(fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true}))(t)
	t.Cleanup(fake.Stop)
	fake.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "bucket"})
	backend := s3mem.New()
	must.Do(t, backend.CreateBucket("bucket"))
	faults := map[string]*objectstores.Faults{
		"gs": {Service: fake.HTTPHandler(), Kinds: kinds, Chance: .1, Most: 2},
		"s3": {Service: objectstores.Checksums{Service: gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()}, Kinds: kinds, Chance: .1, Most: 2},
	}
	for name, value := range map[string]string{
		"STORAGE_EMULATOR_HOST": strings.TrimPrefix(serve(faults["gs"]), "http://"), "AWS_ENDPOINT_URL": serve(faults["s3"]),
		"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_REGION": "us-east-1", "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
	} {
		t.Setenv(name, value)
	}
	google := must.Get(gs.New(ctx, limits))(t)
	amazon := must.Get(s3.New(ctx, limits))(t)
	store.Register("gs", func() (store.FS, error) { return google, nil })
	store.Register("s3", func() (store.FS, error) { return amazon, nil })
	return faults
}

const storesPlan = `{
	"graph": {"paths": ["ROOT/graph/part-*.tsv"], "header": "no"}, "bound": {"max_examples_per_owner": 1},
	"scheme": {"scheme": "b-min-sep", "steps": 32, "min_sep": 4, "batch_size": 20},
	"strategy": {"kind": "banded-toeplitz", "bands": 4},
	"privacy": {"epsilon": 4, "delta": 1e-3, "samples": 5000},
	"noise": {"coordinates": 500, "files": true, "steps_per_file": 16, "shards": 2},
	"batches": {"shards": 2},
	"key": "ROOT/key", "out": "ROOT/planned",
}`

var storesRun, _ = stream.ParseRunID("00000000000000000000000000000abc")

// newPlace puts the key and a graph under root.
func newPlace(t *testing.T, root string) {
	t.Helper()
	ctx := context.Background()
	write := func(name string, data []byte) {
		name = store.Join(root, name)
		must.Do(t, store.MkdirAll(ctx, store.Dir(name), 0o755))
		must.Do(t, store.WriteFile(ctx, name, store.Options{Mode: 0o600}, data))
	}
	write("key", []byte("an example of a key of 32 bytes."))
	for part := range 3 {
		var b bytes.Buffer
		for e := part * 1000; e < part*1000+1000; e++ {
			fmt.Fprintf(&b, "%d\t%d\n%d\t%d\n", e, e, e, 10_000+e/4)
		}
		write(fmt.Sprintf("graph/part-%d.tsv", part), b.Bytes())
	}
	write("graph/_other/part-9.tsv", []byte("no edge\n"))
}

// runStages runs the stages one by one under root/run.
func runStages(ctx context.Context, root string) error {
	testrun.Fix(storesRun)
	o := pipelines.Options{Out: store.Join(root, "run"), KeyFile: store.Join(root, "key")}
	params := mechanism.Params{Kind: "banded-toeplitz", Steps: 32, Bands: 4}
	strategy, err := params.Make(ctx, nil)
	if err != nil {
		return err
	}
	b, err := json.Marshal(strategy)
	if err != nil {
		return err
	}
	file := store.Join(root, "strategy.json")
	if err := store.WriteFile(ctx, file, store.Options{Mode: 0o644}, b); err != nil {
		return err
	}
	scheme := sampling.Params{Scheme: "b-min-sep", Steps: 32, MinSep: 4, BatchSize: 20}
	_, bound := pipelines.Bound{Graph: []string{store.Join(root, "graph")}, Read: graphio.Options{Header: "no"}, Bound: ownergraph.Bound{MaxExamplesPerOwner: 2}}.Run(ctx, o)
	if bound != nil {
		return bound
	}
	if _, err := (pipelines.Form{Params: scheme, Bounded: o.Out, Shards: 2}).Run(ctx, o); err != nil {
		return err
	}
	accounted, err := pipelines.Account{Params: scheme, Bounded: o.Out, Strategy: file, PlanPrivacy: stages.PlanPrivacy{Epsilon: 2, Delta: 1e-3, Samples: 100_000}}.Run(ctx, o)
	if err != nil {
		return err
	}
	_, err = pipelines.Noise{Strategy: file, Steps: 32, NoiseMultiplier: accounted.Certificate.NoiseMultiplier, PlanNoise: stages.PlanNoise{Coordinates: 500, ClipNorm: 1, Files: true, Shards: 2, StepsPerFile: 16}}.Run(ctx, o)
	return err
}

// plan runs the plan under root/planned.
func plan(ctx context.Context, root string) error {
	p, err := stages.ParsePlan("plan", []byte(strings.ReplaceAll(storesPlan, "ROOT", root)))
	if err != nil {
		return err
	}
	testrun.Fix(storesRun)
	_, err = pipelines.RunPlan(ctx, p, pipelines.Options{}, pipelines.Settings{})
	return err
}

// contents are the files under dir. What names the place, the reference to the key and with it the
// recipe's hash, is made the same for every place.
func contents(t *testing.T, root, dir string) map[string]string {
	t.Helper()
	ctx := context.Background()
	all := map[string]string{}
	var walk func(dir, under string)
	walk = func(dir, under string) {
		entries := must.Get(store.List(ctx, dir))(t)
		for _, e := range entries {
			name, at := under+e.Name, store.Join(dir, e.Name)
			if name == manifest.IgnoreName { // on a local disk only
				continue
			}
			if e.Dir {
				walk(at, name+"/")
				continue
			}
			b := must.Get(store.ReadFile(ctx, at, 1<<30))(t)
			switch name {
			case "noise/recipe.json":
				b = bytes.ReplaceAll(b, []byte(root), []byte("ROOT"))
			case manifest.RunName:
				var run manifest.Run
				must.Do(t, json.Unmarshal(b, &run))
				run.SHA256 = manifest.Digest{}
				if noise, ok := run.Stages["noise"]; ok {
					delete(noise, "noise/index.json")
				}
				b = must.Get(json.Marshal(run))(t)
			case "noise/index.json":
				var ix manifest.Index
				must.Do(t, json.Unmarshal(b, &ix))
				ix.Files = slices.DeleteFunc(ix.Files, func(f manifest.File) bool { return f.Name == "recipe.json" })
				b = must.Get(json.Marshal(ix))(t)
			}
			all[name] = string(b)
		}
	}
	walk(dir, "")
	return all
}

func sameContents(t *testing.T, got, want map[string]string) {
	t.Helper()
	if a, b := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(a, b) {
		t.Errorf("other files:\n%s", cmp.Diff(b, a))
	}
	for name := range want {
		// The noise of each run has random bytes of its own: its files are equal in size only, and
		// inspected holds them against their index.
		ofNoise := strings.HasPrefix(name, manifest.NoiseFolder+"/")
		if ofNoise && len(got[name]) != len(want[name]) || !ofNoise && got[name] != want[name] {
			t.Errorf("%s: other bytes than locally (%d, %d)", name, len(got[name]), len(want[name]))
		}
	}
}

func inspected(t *testing.T, dir string, folders int) {
	t.Helper()
	found, err := inspect.Directory(t.Context(), dir, inspect.Options{})
	if err != nil {
		t.Error(err)
		return
	}
	if len(found.Folders) != folders {
		t.Errorf("%s: %d folders inspected", dir, len(found.Folders))
	}
	if err := broken(found.Folders); err != nil {
		t.Error(err)
	}
}

// broken returns the failed checks, but for that of the run id, which these tests fix.
func broken(found []inspect.Inspection) (err error) {
	for _, i := range found {
		for _, p := range i.Checks {
			if !p.Held && p.Name != "fresh" {
				err = errors.Join(err, fmt.Errorf("%s: %s: %s", i.Folder, p.Name, p.Rule))
			}
		}
	}
	return err
}

// TestObjectStores runs every stage, and a whole plan, with graph, key and run directory in an
// object store, with faults in a tenth of the requests: the bytes of a local run, and a service
// that dies in the middle leaves nothing that is taken for a result.
func TestObjectStores(t *testing.T) {
	ctx := context.Background()
	here := t.TempDir()
	newPlace(t, here)
	must.Do(t, runStages(ctx, here))
	must.Do(t, plan(ctx, here))
	want, planned := contents(t, here, store.Join(here, "run")), contents(t, here, store.Join(here, "planned"))
	services := objectStores(t, objectstores.Busy, objectstores.Lost, objectstores.Reset, objectstores.Truncated, objectstores.Short, objectstores.Wrong, objectstores.Throttled, objectstores.Another)
	for scheme, faults := range services {
		t.Run(scheme, func(t *testing.T) {
			root := scheme + "://bucket/place"
			newPlace(t, root)
			must.Do(t, runStages(ctx, root))
			sameContents(t, contents(t, root, store.Join(root, "run")), want)
			inspected(t, store.Join(root, "run"), 5)
			dies(t, faults, root)
			must.Do(t, plan(ctx, root))
			sameContents(t, contents(t, root, store.Join(root, "planned")), planned)
			inspected(t, store.Join(root, "planned"), 6)
			seen := 0
			for _, kind := range faults.Kinds {
				seen += faults.Count(kind)
			}
			if seen < 20 {
				t.Errorf("only %d faults", seen)
			}
			t.Logf("%d faults in %d requests since the service last died", seen, faults.Requests())
		})
	}
}

// TestObjectStoresWithoutUnits: a certificate that takes no samples leaves no log of units in an
// object store and an empty one locally. Both are inspected, put aside and counted alike.
func TestObjectStoresWithoutUnits(t *testing.T) {
	objectStores(t)
	for _, root := range []string{t.TempDir(), "gs://bucket/proven", "s3://bucket/proven"} {
		run := store.Join(root, "run")
		a := pipelines.Account{Params: sampling.Params{Scheme: "fixed", Steps: 16, MinSep: 4, BatchSize: 2}, Examples: 20, Bands: 2, PlanPrivacy: stages.PlanPrivacy{Delta: 1e-3}}
		for _, epsilon := range []float64{2, 3, 4} {
			a.Epsilon = epsilon
			if err := store.Remove(t.Context(), store.Join(run, manifest.CertificateFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if _, err := a.Run(t.Context(), pipelines.Options{Out: run}); err != nil {
				t.Fatalf("%s, epsilon %g: %v", root, epsilon, err)
			}
		}
		replaced, err := store.List(t.Context(), store.Join(run, manifest.LedgerFolder, "earlier"))
		if err != nil || len(replaced) != 2 {
			t.Errorf("%s: %d protocols were put aside (%v)", root, len(replaced), err)
		}
		inspected(t, run, 2)
		if _, err := ledger.Read(t.Context(), store.Join(run, manifest.LedgerFolder)); err != nil {
			t.Errorf("%s: %v", root, err)
		}
	}
}

// dies has the service die again and again, later each time, while the plan runs.
func dies(t *testing.T, faults *objectstores.Faults, root string) {
	t.Helper()
	ctx := context.Background()
	failed := 0
	for _, lives := range []int64{25, 60, 100, 150, 220, 300} {
		faults.Live(lives)
		err := plan(ctx, root)
		faults.Live(0)
		if err == nil {
			break
		}
		failed++
		if strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "an example of a key") {
			t.Errorf("an error says a secret: %v", err)
		}
		for _, folder := range []string{"bounded", "strategy", "batches", "noise"} {
			ix, err := manifest.Read(t.Context(), store.Join(root, "planned", folder))
			if err == nil {
				err = ix.Verify(t.Context(), store.Join(root, "planned", folder))
			} else if errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("after %d requests, %s is half written: %v", lives, folder, err)
			} else {
				err = nil
			}
			if err != nil {
				t.Errorf("after %d requests, %s is taken for a result: %v", lives, folder, err)
			}
		}
	}
	if failed < 3 {
		t.Errorf("only %d runs failed", failed)
	}
}

// TestObjectStoreWriters has two processes at one place: the second is told.
func TestObjectStoreWriters(t *testing.T) {
	ctx := context.Background()
	objectStores(t)
	here := t.TempDir()
	newPlace(t, here)
	must.Do(t, runStages(ctx, here))
	for _, scheme := range []string{"gs", "s3"} {
		ledgerDir := scheme + "://bucket/run/ledger"
		for _, name := range []string{ledger.ProtocolFile, ledger.UnitsFile} {
			b := must.Get(store.ReadFile(ctx, store.Join(here, "run", "ledger", name), 1<<30))(t)
			if name == ledger.UnitsFile {
				b = b[:bytes.IndexByte(b, '\n')+1]
			}
			must.Do(t, store.WriteFile(ctx, store.Join(ledgerDir, name), store.Options{}, b))
		}
		whole := must.Get(ledger.Read(t.Context(), store.Join(here, "run", "ledger")))(t)
		var all []ledger.Entry
		for u, r := range whole.Units {
			all = append(all, ledger.Entry{Unit: u, Result: r})
		}
		if len(all) < 2 {
			t.Fatalf("%d units", len(all))
		}
		first := must.Get(ledger.Open(ledgerDir))(t)
		second := must.Get(ledger.Open(ledgerDir))(t)
		must.Do(t, first.AddAll(all[1:2]))
		if err := second.AddAll(all); !errors.Is(err, store.ErrChanged) {
			t.Errorf("%s: the second writer: %v", scheme, err)
		}
		must.Do(t, first.AddAll(all))
		again := must.Get(ledger.Read(t.Context(), ledgerDir))(t)
		if !reflect.DeepEqual(again.Tallies(), whole.Tallies()) {
			t.Errorf("%s: other tallies", scheme)
		}

		dir := scheme + "://bucket/contended"
		stage := must.Get(manifest.Begin(dir, false))(t)
		index := []byte("{}")
		must.Do(t, store.WriteFile(ctx, store.Join(dir, manifest.IndexName), store.Options{}, index))
		if err := stage.Publish(manifest.Index{Format: "x"}); !errors.Is(err, os.ErrExist) {
			t.Errorf("%s: an index over another one: %v", scheme, err)
		}
	}
}

// TestObjectStorePaths expands folders and patterns as local ones.
func TestObjectStorePaths(t *testing.T) {
	ctx := context.Background()
	objectStores(t)
	here := t.TempDir()
	names := []string{"a/1.tsv", "a/2.tsv", "a.b/1.tsv", "a/_x/3.tsv", "a/.y", "b/c/1.tsv", "b/c/2.csv", "b/d/1.tsv", "c"}
	for _, root := range []string{here, "gs://bucket/paths", "s3://bucket/paths"} {
		for _, name := range names {
			name = store.Join(root, name)
			must.Do(t, store.MkdirAll(ctx, store.Dir(name), 0o755))
			must.Do(t, store.WriteFile(ctx, name, store.Options{Mode: 0o644}, nil))
		}
	}
	for _, pattern := range []string{"", "a", "a/*", "*/1.tsv", "b/c/1.*", "b/*", "?", "*", "c", "nothing", "no*", "a/nothing", "b/[cd]"} {
		want, errWant := graphio.Files{}.Expand(ctx, filepath.Join(here, pattern))
		for i, w := range want {
			want[i] = filepath.ToSlash(w[len(here):])
		}
		for _, root := range []string{"gs://bucket/paths", "s3://bucket/paths"} {
			got, err := graphio.Files{}.Expand(ctx, store.Join(root)+strings.TrimSuffix("/"+pattern, "/"))
			for i, g := range got {
				got[i] = g[len(root):]
			}
			if !slices.Equal(got, want) || (err == nil) != (errWant == nil) {
				t.Errorf("%s in %s: got %v, %v, want %v, %v", pattern, root, got, err, want, errWant)
			}
		}
	}
}

type edge struct {
	Example int64  `parquet:"example_id"`
	Owner   string `parquet:"owner_id"`
}

// TestObjectStoreParquet reads a table of many ranges, with faults: the edges of a local one.
func TestObjectStoreParquet(t *testing.T) {
	ctx := context.Background()
	services := objectStores(t, objectstores.Busy, objectstores.Reset, objectstores.Truncated, objectstores.Short)
	var table bytes.Buffer
	random := rand.New(rand.NewPCG(1, 2))
	w := parquet.NewGenericWriter[edge](&table)
	for range 4 {
		edges := make([]edge, 50_000)
		for i := range edges {
			edges[i] = edge{random.Int64(), fmt.Sprintf("owner %x", random.Uint64())}
		}
		must.Get(w.Write(edges))(t)
		must.Do(t, w.Flush())
	}
	must.Do(t, w.Close())
	read := func(root string) string {
		name := store.Join(root, "graph.parquet")
		must.Do(t, store.WriteFile(ctx, name, store.Options{Mode: 0o600}, table.Bytes()))
		source, err := graphio.Open(ctx, []string{name}, graphio.Options{})
		if err != nil {
			t.Fatal(err)
		}
		sum, n := sha256.New(), 0
		for _, split := range source.Splits() {
			err = errors.Join(err, split.Read(ctx, nil, func(b *graphio.Batch) error {
				chunk, err := b.AppendBinary(nil)
				sum.Write(chunk)
				n += b.Len()
				return err
			}))
		}
		if err != nil || n != 200_000 {
			t.Errorf("%s: %d edges, %v", root, n, err)
		}
		return string(sum.Sum(nil))
	}
	want := read(t.TempDir())
	for scheme, faults := range services {
		faults.Live(0)
		if read(scheme+"://bucket/parquet") != want {
			t.Errorf("%s: other edges", scheme)
		}
		t.Logf("%s: %d bytes, %d requests", scheme, table.Len(), faults.Requests())
	}
}

// TestObjectStoresCommand gives the command names of objects.
func TestObjectStoresCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command: not with -short")
	}
	objectStores(t)
	bin := buildCommand(t)
	for _, root := range []string{"gs://bucket/command", "s3://bucket/command"} {
		newPlace(t, root)
		run := func(args ...string) {
			t.Helper()
			for i, a := range args {
				args[i] = strings.ReplaceAll(a, "ROOT", root)
			}
			if out, err := exec.Command(bin, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
		}
		if err := store.WriteFile(context.Background(), root+"/plan.json", store.Options{}, []byte(strings.ReplaceAll(strings.ReplaceAll(storesPlan, "ROOT/key", "ROOT/new-key"), "ROOT", root))); err != nil {
			t.Fatal(err)
		}
		run("keygen", "ROOT/new-key")
		run("bound", "--graph", "ROOT/graph/part-?.tsv", "--header", "no", "--max-per-owner", "1", "--key", "ROOT/new-key", "--out", "ROOT/run", "--quiet")
		run("form", "--bounded", "ROOT/run", "--scheme", "b-min-sep", "--steps", "32", "--min-sep", "4", "--batch-size", "20", "--key", "ROOT/new-key", "--out", "ROOT/run", "--quiet")
		run("strategy", "--kind", "banded-toeplitz", "--steps", "32", "--bands", "4", "--out", "ROOT/run/strategy.json", "--quiet")
		run("noise", "--files", "--strategy", "ROOT/run/strategy.json", "--noise-multiplier", "1", "--steps", "32", "--coordinates", "100", "--key", "ROOT/new-key", "--out", "ROOT/run", "--quiet")
		run("run", "ROOT/plan.json", "--until", "form", "--quiet")
		run("inspect", "ROOT/run")
		if out, err := exec.Command(bin, "keygen", root+"/new-key").CombinedOutput(); err == nil {
			t.Errorf("a key was overwritten: %s", out)
		}
	}
}
