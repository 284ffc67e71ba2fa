package main

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"minsep/internal/must"
	"minsep/internal/noise"
	"minsep/internal/ownergraph"
)

// dryDataflow are Beam's own flags for a job that is translated and not sent.
var dryDataflow = []string{"--runner=dataflow", "--dry_run", "--project=p", "--region=r", "--staging_location=gs://bucket/staging", "--log-level=info"}

// Every pipeline can be translated for Dataflow without credentials or network. The graph, which
// the service stores and shows, has readable names, and neither a key nor an id in it.
func TestDataflow(t *testing.T) {
	dir := t.TempDir()
	key, graph := filepath.Join(dir, "key"), filepath.Join(dir, "graph.tsv")
	mustRun(t, "keygen", key)
	var edges strings.Builder
	for e := range 300 {
		fmt.Fprintf(&edges, "exampleNAME%d\townerNAME%d\nexampleNAME%d\townerNAME%d\n", e, e, e, 300+e/4)
	}
	must.Do(t, os.WriteFile(graph, []byte(edges.String()), 0o600))
	bounded, strategy := filepath.Join(dir, "bounded"), filepath.Join(dir, "strategy.json")
	mustRun(t, "bound", "--graph", graph, "--header", "no", "--max-per-owner", "2", "--key", key, "--out", bounded)
	mustRun(t, "strategy", "--kind", "bisr", "--steps", "40", "--bands", "4", "--out", strategy)
	files := filepath.Join(dir, "files")
	mustRun(t, "form", "--bounded", bounded, "--scheme", "poisson", "--steps", "40", "--prob", "0.1", "--key", key, "--out", bounded)
	must.Do(t, os.Mkdir(files, 0o700))
	for e := range 300 {
		must.Do(t, os.WriteFile(filepath.Join(files, fmt.Sprintf("exampleNAME%d.txt", e)), nil, 0o600))
	}
	secrets := secretsOf(t, key)
	before := listing(t, dir)

	form := func(scheme string, more ...string) []string {
		return append([]string{"form", "--bounded", bounded, "--scheme", scheme, "--steps", "40", "--min-sep", "4", "--key", key}, more...)
	}
	jobs := map[string]struct {
		args  []string
		steps []string // some of the names that the job has
	}{
		"bound":                 {[]string{"bound", "--graph", graph, "--header", "no", "--max-per-owner", "2", "--key", key}, []string{"minsep.BoundGraph/manifestio.ReadGraph", "minsep.BoundGraph/contribution.Bound/contribution.gatherFn", "manifestio.WriteBounded"}},
		"bound, neighbourhoods": {[]string{"bound", "--graph", graph, "--header", "no", "--max-per-owner", "2", "--max-neighborhood", "5", "--duplicates", "--key", key}, []string{"minsep.BoundGraph/contribution.Bound/contribution.boundFn", "manifestio.Collect collected-files.json"}},
		"b-min-sep":             {form("b-min-sep", "--batch-size", "3"), []string{"minsep.SampleBatches/formation.Table/formation.drawTableFn"}},
		"b-min-sep, truncated":  {form("b-min-sep", "--batch-size", "3", "--max-batch-size", "5"), nil},
		"poisson":               {form("poisson", "--prob", "0.1", "--min-sep", "1"), nil},
		"balls-in-bins":         {form("balls-in-bins"), nil},
		"cyclic-poisson":        {form("cyclic-poisson", "--prob", "0.1"), nil},
		"multi-owner":           {form("multi-owner", "--prob", "0.1"), []string{"minsep.SampleBatches/formation.Table/exclude/formation.excludeFn"}},
		"fixed":                 {form("fixed", "--batch-size", "3"), []string{"minsep.SampleBatches/formation.Table/formation.fixedTableFn"}},
		"numbered examples":     {[]string{"form", "--examples", "300", "--scheme", "b-min-sep", "--steps", "40", "--min-sep", "4", "--batch-size", "3", "--key", key}, []string{"minsep.SampleBatches/formation.Range/formation.drawRangeFn"}},
		"account": {[]string{"account", "--scheme", "b-min-sep", "--steps", "40", "--min-sep", "4", "--batch-size", "3", "--examples", "300", "--bands", "4", "--epsilon", "2", "--delta", "1e-3", "--samples", "10000"},
			[]string{"losses.Sum/losses.sumFn"}},
		"noise": {[]string{"noise", "--files", "--strategy", strategy, "--noise-multiplier", "2", "--steps", "40", "--coordinates", "1000", "--key", key}, []string{"noiseshards.Write/noiseshards.writeFn"}},
	}
	for name, job := range jobs {
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			args := append(job.args, "--work-dir", work, "--quiet", "--out", "gs://bucket/run")
			c := command(t, append(args, dryDataflow...)...)
			c.Env = append(os.Environ(), "GOOGLE_APPLICATION_CREDENTIALS=/nowhere", "CLOUDSDK_CONFIG=/nowhere")
			var stderr bytes.Buffer
			c.Stderr = &stderr
			if err := c.Run(); err != nil {
				t.Fatalf("%v\n%s", err, &stderr)
			}
			model := translated(t, stderr.Bytes())
			checkSteps(t, model, job.steps)
			checkSecrets(t, model, secrets)
			if strings.HasPrefix(name, "bound") {
				b, err := proto.Marshal(model)
				if err != nil || find(decodings(b, 4), []byte(`"TempDir":"`+work+`"`)) == nil {
					t.Errorf("workers are not told where to put temporary files (%v)", err)
				}
			}
			if left := listing(t, work); left != "." {
				t.Errorf("left in the work folder: %s", left)
			}
		})
	}
	if after := listing(t, dir); after != before {
		t.Errorf("the dry runs left something: %s, before %s", after, before)
	}
}

// listing lists all that is below a folder.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		names = append(names, name)
		return err
	})
	must.Do(t, err)
	return strings.Join(names, " ")
}

// translated finds the graph in the JSON logs of a dry run.
func translated(t *testing.T, logs []byte) *pipepb.Pipeline {
	t.Helper()
	var model *pipepb.Pipeline
	job := false
	for line := range bytes.Lines(logs) {
		_, rest, _ := strings.Cut(string(line), " msg=")
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil { // a message of one word
			continue
		}
		message := must.Get(strconv.Unquote(quoted))(t)
		if strings.HasPrefix(message, "components:") {
			model = new(pipepb.Pipeline)
			must.Do(t, prototext.Unmarshal([]byte(message), model))
		}
		job = job || strings.Contains(message, `"type": "JOB_TYPE_BATCH"`)
	}
	if model == nil || !job {
		t.Fatalf("no graph or no job in the logs: %.2000s", logs)
	}
	return model
}

// dull are names that say nothing: functions without a name, and numbers that Beam gives to equal
// names.
var dull = regexp.MustCompile(`func\d|glob\.\.|'\d`)

func checkSteps(t *testing.T, model *pipepb.Pipeline, want []string) {
	t.Helper()
	missing := map[string]bool{}
	for _, name := range want {
		missing[name] = true
	}
	for _, step := range model.GetComponents().GetTransforms() {
		for name := range missing {
			if strings.HasPrefix(step.GetUniqueName(), name) {
				delete(missing, name)
			}
		}
		if dull.MatchString(step.GetUniqueName()) {
			t.Errorf("step %s", step.GetUniqueName())
		}
	}
	for name := range missing {
		t.Errorf("there is no step %s", name)
	}
}

// secret is what must not be in a graph.
type secret struct {
	name  string
	bytes []byte
}

// secretsOf are the two halves of the root key, and ids.
func secretsOf(t *testing.T, keyFile string) []secret {
	t.Helper()
	root := must.Get(os.ReadFile(keyFile))(t)
	list := []secret{{"example id", []byte("exampleNAME")}, {"owner id", []byte("ownerNAME")}}
	return append(list, halves("root key", root)...)
}

// halves makes two secrets of a key, so that a part of it is found too.
func halves(name string, key []byte) []secret {
	return []secret{{name, key[:len(key)/2]}, {name, key[len(key)/2:]}}
}

var keyReference = regexp.MustCompile(`"run_id":"([0-9a-f]{32})","params_sha256":"([0-9a-f]{64})"`)

// checkSecrets searches all of a graph, and what is encoded in it.
func checkSecrets(t *testing.T, model *pipepb.Pipeline, secrets []secret) {
	t.Helper()
	b := must.Get(proto.Marshal(model))(t)
	layers := decodings(b, 4)
	root := append(bytes.Clone(secrets[2].bytes), secrets[3].bytes...)
	for _, layer := range layers { // the keys that the references in the graph stand for
		for _, m := range keyReference.FindAllSubmatch(layer, -1) {
			salt, _ := hex.DecodeString(string(m[1]) + string(m[2]))
			for _, purpose := range []string{ownergraph.PriorityPurpose, "formation", noise.KeyPurpose} {
				secrets = append(secrets, halves("key of "+purpose, derive(t, root, salt, purpose))...)
				for _, sub := range []string{"participations", "owners", "truncation", "order"} {
					secrets = append(secrets, halves("key of "+purpose+": "+sub, derive(t, derive(t, root, salt, purpose), nil, sub))...)
				}
			}
		}
	}
	for _, s := range secrets {
		if layer := find(layers, s.bytes); layer != nil {
			t.Errorf("the graph holds the %s: %.200q", s.name, layer)
		}
	}
}

func derive(t *testing.T, secret, salt []byte, purpose string) []byte {
	t.Helper()
	key := must.Get(hkdf.Key(sha256.New, secret, salt, purpose, 32))(t)
	return key
}

func find(layers [][]byte, secret []byte) []byte {
	for _, layer := range layers {
		lower := bytes.ToLower(layer)
		if bytes.Contains(layer, secret) || bytes.Contains(lower, []byte(hex.EncodeToString(secret))) ||
			bytes.Contains(layer, []byte(strings.Trim(fmt.Sprint(secret), "[]"))) || bytes.Contains(layer, []byte(strings.ReplaceAll(strings.Trim(fmt.Sprint(secret), "[]"), " ", ","))) {
			return layer
		}
	}
	return nil
}

var base64Run = regexp.MustCompile(`[A-Za-z0-9+/_-]{16,}`)

// decodings returns b and what its runs of base64 letters decode to, from each place where a group
// of four may begin, and so on, depth times.
func decodings(b []byte, depth int) [][]byte {
	all := [][]byte{b}
	if depth == 0 {
		return all
	}
	for _, run := range base64Run.FindAll(b, -1) {
		text := strings.NewReplacer("-", "+", "_", "/").Replace(string(run))
		for from := range 4 {
			part := text[from:]
			if len(part)%4 == 1 { // a letter too many
				part = part[:len(part)-1]
			}
			if decoded, err := base64.RawStdEncoding.DecodeString(part); err == nil {
				all = append(all, decodings(decoded, depth-1)...)
			}
		}
	}
	return all
}

// The search finds what is planted.
func TestSearchFindsSecrets(t *testing.T) {
	key := bytes.Repeat([]byte{200, 17, 3, 99}, 8)
	inJSON := must.Get(json.Marshal(map[string]any{"a": 1, "Key": key}))(t)
	numbers := must.Get(json.Marshal([32]byte(key)))(t)
	for name, planted := range map[string][]byte{
		"raw":                  key,
		"hexadecimal":          []byte("x" + strings.ToUpper(hex.EncodeToString(key)) + "y"),
		"JSON":                 inJSON,
		"JSON numbers":         numbers,
		"base64 of JSON":       []byte(base64.StdEncoding.EncodeToString(inJSON)),
		"base64 of base64":     []byte("xyz" + base64.URLEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString(inJSON)))),
		"one half":             key[:16],
		"the other, in quotes": []byte(`"` + base64.StdEncoding.EncodeToString(key[16:]) + `"`),
	} {
		found := false
		for _, s := range halves("key", key) {
			found = found || find(decodings(append([]byte("before "), planted...), 4), s.bytes) != nil
		}
		if !found {
			t.Errorf("%s: not found", name)
		}
	}
	for _, s := range halves("key", key) {
		if find(decodings([]byte(strings.Repeat("nothing of the kind ", 50)), 4), s.bytes) != nil {
			t.Error("found where it is not")
		}
	}
}

// What cannot work on Dataflow, or looks like a dry run and is none, is refused.
func TestDataflowRefused(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	mustRun(t, "keygen", key)
	form := []string{"form", "--examples", "300", "--scheme", "poisson", "--steps", "4", "--prob", "0.1", "--key", key, "--out", filepath.Join(dir, "run")}
	for want, args := range map[string][]string{
		"must be in an object store": {"--runner=dataflow", "--project=p", "--region=r", "--staging_location=gs://bucket/staging"},
		"is for --runner dataflow":   {"--dry_run"},
		"--async true: cannot":       {"--async"},
		"template_location":          {"--template_location=gs://bucket/template"},
	} {
		out, err := command(t, append(form, args...)...).CombinedOutput()
		if exitOf(err) != exitUsage || !strings.Contains(string(out), want) {
			t.Errorf("%v: exit code %d: %s", args, exitOf(err), out)
		}
	}
	if left := listing(t, dir); left != ". key" {
		t.Errorf("left: %s", left)
	}
}
