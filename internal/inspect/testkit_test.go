package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/montecarlo"
	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/sampling"
)

// kitCase is a run directory of docs/testkit with its verdict: the files of Base, less those of Remove,
// and over them the files of the folder Name.
type kitCase struct {
	Name    string   `json:"name"`
	Base    string   `json:"base,omitempty"`
	Remove  []string `json:"remove,omitempty"`
	Verdict string   `json:"verdict"`         // a State
	Check   string   `json:"check,omitempty"` // a word of the line of the check that fails
	Needs   string   `json:"needs,omitempty"` // "own samples" or "recheck": it is certified without these
	Why     string   `json:"why"`
}

const kit = "../../docs/testkit"

// directory makes the run directory of a case.
func (c kitCase) directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, from := range []string{c.Base, c.Name} {
		err := filepath.WalkDir(filepath.Join(kit, from), func(path string, entry fs.DirEntry, err error) error {
			if from == "" || errors.Is(err, fs.ErrNotExist) || err == nil && entry.IsDir() {
				return nil
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(filepath.Join(kit, from), path)
			if err != nil || from == c.Base && slices.Contains(c.Remove, filepath.ToSlash(name)) {
				return err
			}
			to := filepath.Join(dir, name)
			return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, b, 0o644))
		})
		must.Do(t, err)
	}
	return dir
}

// TestKit holds the verdict on every directory of docs/testkit. MINSEP_WRITE_TESTKIT makes the forged
// ones anew from the sound ones.
func TestKit(t *testing.T) {
	if os.Getenv("MINSEP_WRITE_TESTKIT") != "" {
		writeKit(t)
	}
	data := must.Get(os.ReadFile(filepath.Join(kit, "cases.json")))(t)
	var cases []kitCase
	must.Do(t, json.Unmarshal(data, &cases))
	for _, c := range cases {
		dir := c.directory(t)
		if c.Needs != "" {
			if r := inspected(t, dir, Options{}); r.State != StateCertified || !strings.Contains(r.Verdict, "samples not recomputed") {
				t.Errorf("%s, without %s: %s", c.Name, c.Needs, r.Verdict)
			}
		}
		o := Options{OwnSamples: 0.05}
		if c.Needs == "recheck" {
			l, err := ledger.Read(t.Context(), filepath.Join(dir, manifest.LedgerFolder))
			if err != nil || l.Protocol().KernelID != montecarlo.KernelID() {
				t.Logf("%s: not run on this machine: %v", c.Name, err)
				continue
			}
			o = Options{Recheck: 1000}
		}
		r := inspected(t, dir, o)
		named := slices.ContainsFunc(r.failedChecks(), func(line string) bool { return strings.Contains(line, c.Check) })
		if r.State != c.Verdict || (c.Check != "" && !named) {
			t.Errorf("%s: want %s by %q, got %s", c.Name, c.Verdict, c.Check, r.Verdict)
		}
	}
}

// writeKit makes the forged directories and cases.json.
func writeKit(t *testing.T) {
	read := func(run, name string) []byte {
		b := must.Get(os.ReadFile(filepath.Join(kit, run, name)))(t)
		return b
	}
	const certificate, protocol, log = manifest.CertificateFile, "ledger/" + ledger.ProtocolFile, "ledger/" + ledger.UnitsFile
	sampled := must.Get(ledger.Read(t.Context(), filepath.Join(kit, "sampled", manifest.LedgerFolder)))(t)
	proven := must.Get(accounting.ParseProtocol(read("proven", protocol)))(t)
	cases := []kitCase{
		{Name: "sampled", Verdict: StateCertified, Why: "sound; it rests on samples"},
		{Name: "proven", Verdict: StateCertified, Why: "sound; it rests on a composition of cut batches, or on one of whole batches and the cost of the cut"},
	}
	put := func(c kitCase, files map[string][]byte) {
		for name, b := range files {
			path := filepath.Join(kit, c.Name, name)
			must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o644)))
		}
		cases = append(cases, c)
	}
	edit := func(name, base, file, old, new, check, why string) {
		b := read(base, file)
		if !bytes.Contains(b, []byte(old)) {
			t.Fatalf("%s: no %q", name, old)
		}
		put(kitCase{Name: name, Base: base, Verdict: StateBroken, Check: check, Why: why}, map[string][]byte{file: bytes.Replace(b, []byte(old), []byte(new), 1)})
	}
	// forge writes a ledger of a protocol and its certificate, which follows from it.
	forge := func(c kitCase, p *accounting.Protocol, sums func(u ledger.Unit) []montecarlo.Sum) {
		dir := t.TempDir()
		l, err := ledger.Create(dir, p)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		for i := range p.Candidates {
			for _, u := range l.Missing(i, math.MaxUint32) {
				must.Do(t, l.AddAll([]ledger.Entry{{Unit: u, Result: ledger.Result{Sums: sums(u)}}}))
			}
		}
		cert, err := l.Certificate()
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		b := must.Get(cert.Encode())(t)
		files := map[string][]byte{certificate: b}
		for _, name := range []string{ledger.ProtocolFile, ledger.UnitsFile} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if name == ledger.UnitsFile && errors.Is(err, fs.ErrNotExist) {
				continue // nothing was drawn
			}
			must.Do(t, err)
			files["ledger/"+name] = b
		}
		c.Remove = append(c.Remove, "ledger/"+manifest.RequestFile)
		put(c, files)
	}
	zeros := func(u ledger.Unit) []montecarlo.Sum { return make([]montecarlo.Sum, (u.Count-1)/ledger.BlockSize+1) }
	batches := []string{"batches/index.json", "batches/indptr-00000-of-00001.npy", "batches/rows-00000-of-00001.npy"}

	// What does not follow from the ledger.
	edit("less-noise", "sampled", certificate, `"noise_multiplier": 1.`, `"noise_multiplier": 0.9`, "certificate: its bytes", "the certificate has less noise than its ledger verified")
	edit("smaller-delta", "proven", certificate, `"delta": 0.01`, `"delta": 0.001`, "readable", "δ is below what the points of the same certificate say")
	edit("field-twice", "proven", certificate, `"epsilon": 1,`, `"epsilon": 1, "Epsilon": 0.1,`, "readable", "a field occurs twice, in other capitals: readers differ in which they take")
	edit("unknown-field", "proven", certificate, `"format": 1,`, `"format": 1, "weather": "words",`, "readable", "a column that no reader knows")
	edit("other-graph", "proven", certificate, "is public and fixed", "may change", "certificate: its bytes", "the certificate says more than follows from its ledger")
	edit("other-bytes", "sampled", certificate, "{\n", "{\n\n", "certificate: its bytes", "the same values in other bytes")
	edit("other-protocol", "sampled", protocol, `"code_version": "`, `"code_version": "x`, "readable", "the units are of another protocol")
	edit("loose-protocol", "proven", protocol, "{\n", "{", "readable", "the protocol is not in the form that it is hashed in")
	edit("changed-sum", "sampled", log, `"sums":["`, `"sums":["1`, "corrupt", "a line of the log does not have its checksum")
	put(kitCase{Name: "torn-log", Base: "proven", Verdict: StateBroken, Check: "corrupt", Why: "the log ends in a part of a line"}, map[string][]byte{log: []byte("0123456789abcdef {")})
	put(kitCase{Name: "no-units", Base: "sampled", Remove: []string{log}, Verdict: StateBroken, Check: "certificate: its bytes", Why: "the sums are gone"}, nil)
	put(kitCase{Name: "no-ledger", Base: "proven", Remove: []string{protocol, log, "ledger/request.json"}, Verdict: StateBroken, Check: "readable", Why: "nobody can check the certificate"}, nil)
	put(kitCase{Name: "no-certificate", Base: "proven", Remove: []string{certificate}, Verdict: StateNotCertified, Why: "whole, and nothing is claimed"}, nil)

	// Ledgers that do not fit their protocol's claim, and from which their certificates follow.
	invented := protocolAt(t, 0.5, montecarlo.KernelID())
	for _, kernel := range []struct{ name, id string }{{"invented-sums", montecarlo.KernelID()}, {"made-up-kernel", "kernel of nobody"}} {
		invented.KernelID = kernel.id
		c := kitCase{Name: kernel.name, Base: "sampled", Remove: slices.Clone(batches), Verdict: StateBroken, Check: "own samples: ", Needs: "own samples", Why: "every sum was invented, at a noise multiplier whose δ is far larger"}
		if kernel.id != montecarlo.KernelID() {
			c.Check, c.Needs, c.Why = "kernel: ", "", "sums of an arithmetic that no machine has, so that nobody can recompute them"
		}
		forge(c, invented, zeros)
	}
	honest := map[[2]int][]montecarlo.Sum{}
	for u, r := range sampled.Units {
		honest[[2]int{u.Candidate, u.Trial}] = append(honest[[2]int{u.Candidate, u.Trial}], r.Sums...)
	}
	lowered := *sampled.Protocol()
	forge(kitCase{Name: "lowered-block", Base: "sampled", Verdict: StateBroken, Check: "blocks: ", Needs: "recheck", Why: "one block's sum was set to 0, in a ledger that is honest else"}, &lowered, func(u ledger.Unit) []montecarlo.Sum {
		sums := slices.Clone(honest[[2]int{u.Candidate, u.Trial}])
		if len(sums) == 0 {
			t.Fatal("the sound ledger lacks a trial")
		}
		sums[0] = montecarlo.Sum{}
		return sums
	})
	change := func(name, check, why string, change func(p *accounting.Protocol)) {
		var p accounting.Protocol
		b, err := json.Marshal(proven)
		if err == nil {
			err = json.Unmarshal(b, &p)
		}
		must.Do(t, err)
		change(&p)
		forge(kitCase{Name: name, Base: "proven", Verdict: StateBroken, Check: check, Why: why}, &p, zeros)
	}
	change("lower-bound", "proofs: ", "a bound without samples is a tenth of what its proof gives", func(p *accounting.Protocol) {
		for i := range p.Candidates[0].Trials {
			p.Candidates[0].Trials[i].Bound /= 10
		}
		p.Candidates[0].NoiseMultiplier *= 0.7
	})
	change("other-method", "proofs: ", "the method that is named proves no such bound of this run", func(p *accounting.Protocol) {
		for i := range p.Candidates[0].Trials {
			trial := &p.Candidates[0].Trials[i]
			trial.Method, trial.Truncation = accounting.ClosedForm, &accounting.Truncated{Rule: accounting.Once}
		}
	})
	change("cheap-cut", "proofs: ", "the cost of a maximum batch size is 0, where batches are cut often", func(p *accounting.Protocol) {
		p.Run.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: 8}
		p.Candidates[0].NoiseMultiplier *= 0.7
		for i := range p.Candidates[0].Trials {
			p.Candidates[0].Trials[i].Truncation = &accounting.Truncated{Rule: accounting.NeverCut}
		}
	})
	change("other-run", "proofs: ", "the run takes five times as many steps as the proof", func(p *accounting.Protocol) {
		p.Run.Sampler.Poisson = &sampling.Poisson{Prob: p.Run.Sampler.Poisson.Prob, Steps: 5 * p.Run.Sampler.Poisson.Steps}
		p.Run.Strategy = mechanism.Identity(p.Run.Sampler.Poisson.Steps)
	})
	// Protocols that break a rule of their own are written by text, since no program encodes them.
	uncharged := regexp.MustCompile(`(?s),\s*"truncation": \{[^}]*"cost"[^}]*\}`).ReplaceAll(read("proven", protocol), nil)
	uncharged = bytes.ReplaceAll(uncharged, []byte(`"pld"`), []byte(`"renyi bound M\u003c=delta"`))
	put(kitCase{Name: "uncharged-cut", Base: "proven", Verdict: StateBroken, Check: "truncation of a trial", Why: "a bound of the run without its maximum batch size, and no cost of the cut"}, map[string][]byte{protocol: uncharged})
	edit("one-direction", "proven", protocol, `"direction": "Q"`, `"direction": "P"`, "trials of a point and direction", "one direction has no trial")
	edit("half-delta", "proven", protocol, `"verify": 0.01`, `"verify": 0.02`, "δ_v + q(1-δ_v)", "the thresholds do not add up to the δ that is claimed")

	// Batches beside the certificate.
	library := lowered
	library.PlanSHA256 = ""
	forge(kitCase{Name: "written-by-a-program", Base: "sampled", Verdict: StateCertified, Why: "sound: the certificate names no parameters of batches, and its sampler is theirs"}, &library, func(u ledger.Unit) []montecarlo.Sum { return honest[[2]int{u.Candidate, u.Trial}] })
	edit("other-sampler", "sampled", "batches/index.json", `"prob": 0.2`, `"prob": 0.25`, "readable", "the parameters of the batches were changed")
	edit("other-batches", "sampled", "batches/index.json", `"run_id": "`, `"run_id": "00`, "batches", "the batches are of another run")

	b := must.Get(json.MarshalIndent(cases, "", "  "))(t)
	must.Do(t, os.WriteFile(filepath.Join(kit, "cases.json"), append(b, '\n'), 0o644))
}
