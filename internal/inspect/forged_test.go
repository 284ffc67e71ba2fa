package inspect

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/sampling"
)

// protocolAt is a protocol with one candidate, whose trials have samples, at epsilon 1 or at the values
// that are given.
func protocolAt(t *testing.T, sigma float64, kernel string, epsilons ...float64) *accounting.Protocol {
	t.Helper()
	const delta = 1e-3
	run := accounting.Run{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 16, MinSep: 2, WarmStart: true}},
		Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 16, Toeplitz: []float64{1, 0.5}}, MaxExamplesPerOwner: 1}
	p := &accounting.Protocol{Format: 1, Run: run, CodeVersion: manifest.Version, KernelID: kernel,
		Candidates: []accounting.Candidate{{NoiseMultiplier: sigma}}}
	if epsilons == nil {
		epsilons = []float64{1}
	}
	others := float64(len(epsilons)-1) * delta / 100 // failures of the other points
	for point, epsilon := range epsilons {
		var goals []accounting.Goal
		var proposals []tilt.Proposal
		for _, d := range montecarlo.Directions {
			proposal := must.Get(tilt.NewProposal(t.Context(), tilt.Config{Spec: run.Loss(sigma), Epsilon: epsilon, Direction: d}, math.Inf(1)))(t)
			proposals, goals = append(proposals, proposal), append(goals, accounting.Goal{Bound: proposal.Bound, Mean: 0.8 * delta})
		}
		thresholds, tests, err := accounting.Claim{Delta: delta, Earlier: others, MostFailure: delta / 100}.Allocate(goals)
		must.Do(t, err)
		p.Points = append(p.Points, accounting.Point{Epsilon: epsilon, Delta: delta, Thresholds: thresholds})
		for i, d := range montecarlo.Directions {
			trial := accounting.Trial{Point: point, Direction: d, Method: accounting.MonteCarlo, Bound: goals[i].Bound, Samples: tests[i].Samples, Accept: tests[i].Accept}
			if trial.Samples == 0 {
				trial.Method, trial.Bound = accounting.RenyiBound, proposals[i].Divergence
			} else {
				proposal := proposals[i]
				proposal.Config = tilt.Config{}
				trial.Values = must.Get(json.Marshal(calibration.Values{Tilt: &proposal}))(t)
			}
			p.Candidates[0].Trials = append(p.Candidates[0].Trials, trial)
		}
	}
	return p
}

// published writes a ledger of a protocol with units by fill, and its certificate, and returns the run
// directory.
func published(t *testing.T, p *accounting.Protocol, fill func(u ledger.Unit) []ledger.Entry) string {
	t.Helper()
	dir := t.TempDir()
	l := must.Get(ledger.Create(filepath.Join(dir, manifest.LedgerFolder), p))(t)
	for _, u := range l.Missing(0, math.MaxUint32) {
		must.Do(t, l.AddAll(fill(u)))
	}
	c := must.Get(l.Certificate())(t)
	data := must.Get(c.Encode())(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, manifest.CertificateFile), data, 0o644))
	return dir
}

// TestForgedLedgers: a ledger whose samples were invented, alone or beside honest ones, and one of a
// kernel that does not exist, follow byte for byte from their protocols, as forged ones do. Own samples
// find them, and an honest ledger passes. Units that were recomputed are drawn by their samples: honest
// ones of one sample hide no invented one.
func TestForgedLedgers(t *testing.T) {
	zeros := func(u ledger.Unit) ledger.Entry {
		return ledger.Entry{Unit: u, Result: ledger.Result{Sums: make([]montecarlo.Sum, (u.Count-1)/ledger.BlockSize+1)}}
	}
	invented := func(u ledger.Unit) []ledger.Entry { return []ledger.Entry{zeros(u)} }
	honest := func(p *accounting.Protocol, u ledger.Unit) ledger.Entry {
		w := must.Get(calibration.NewWorker(p, u.Candidate, u.Trial))(t)
		r := must.Get(w.Run(t.Context(), u.First, u.Count, 1))(t)
		return ledger.Entry{Unit: u, Result: r}
	}
	small := protocolAt(t, 0.5, montecarlo.KernelID())
	plan := must.Get(calibration.Problem{Run: small.Run, Epsilon: 1, Delta: 1e-3, Samples: 20_000, CodeVersion: manifest.Version}.Plan(t.Context()))(t)
	large := plan.Protocol
	large.Candidates = large.Candidates[len(large.Candidates)-1:]
	for _, c := range []struct {
		name    string
		p       *accounting.Protocol
		fill    func(u ledger.Unit) []ledger.Entry
		forged  bool
		recheck bool // finds it as well
	}{
		{"invented units", small, invented, true, true},
		{"honest units of one sample beside an invented one", small, func(u ledger.Unit) (entries []ledger.Entry) {
			const few = 20
			w := must.Get(calibration.NewWorker(small, u.Candidate, u.Trial))(t)
			for i := range uint64(few) {
				one := u
				one.First, one.Count = u.First+i, 1
				r := must.Get(w.Run(t.Context(), one.First, 1, 1))(t)
				entries = append(entries, ledger.Entry{Unit: one, Result: r})
			}
			u.First, u.Count = u.First+few, u.Count-few
			return append(entries, zeros(u))
		}, true, true},
		{"a kernel of another machine", protocolAt(t, 0.5, "fma/2-00000000"), invented, true, false},
		{"a kernel that does not exist", protocolAt(t, 0.5, "kernel of nobody"), invented, true, true},
		{"samples without a kernel", protocolAt(t, 0.5, ""), invented, true, true},
		{"invented units of a further point", protocolAt(t, 0.5, montecarlo.KernelID(), 60, 1), invented, true, true},
		{"honest units", large, func(u ledger.Unit) []ledger.Entry { return []ledger.Entry{honest(large, u)} }, false, false},
	} {
		dir := published(t, c.p, c.fill)
		claim := func(o Options) Report {
			r, err := Claim(t.Context(), dir, o)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			return r
		}
		if r := claim(Options{}); !montecarlo.IsKernelID(c.p.KernelID) {
			if r.State != StateBroken || !strings.Contains(r.Verdict, "kernel") {
				t.Errorf("%s: without samples of the reader: %s", c.name, r.Verdict)
			}
		} else if r.State != StateCertified || !strings.HasSuffix(r.Verdict, "; samples not recomputed") {
			t.Errorf("%s: without samples of the reader: %s", c.name, r.Verdict)
		}
		if r := claim(Options{OwnSamples: 0.05}); (r.State == StateBroken) != c.forged || !c.forged && !strings.Contains(r.Verdict, "own samples: delta at most ") {
			t.Errorf("%s: %s", c.name, r.Verdict)
		}
		units := Inspection{Folder: filepath.Join(dir, manifest.LedgerFolder), all: new(Contents)}
		err := units.recheck(t.Context(), 3)
		if c.p.KernelID != "" && c.p.KernelID != montecarlo.KernelID() && montecarlo.IsKernelID(c.p.KernelID) {
			if err == nil || !strings.Contains(err.Error(), "recheck 3: needs a machine with kernel "+c.p.KernelID) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || slices.ContainsFunc(units.Checks, func(c sampling.Check) bool { return !c.Held }) != c.recheck {
			t.Errorf("%s: recheck says %+v, %v", c.name, units.Checks, err)
		}
		if r := claim(Options{OwnSamples: 0.05, Recheck: 3}); !c.forged && c.p.KernelID != "" && !strings.Contains(r.Verdict, "blocks of samples recomputed") {
			t.Errorf("%s: after a recheck: %s", c.name, r.Verdict)
		}
	}
}

// TestUndetected: a trial that has few of a ledger's samples is found as seldom as they are drawn.
func TestUndetected(t *testing.T) {
	p := protocolAt(t, 0.5, montecarlo.KernelID())
	l := must.Get(ledger.InMemory(p))(t)
	samples, fewest := uint64(0), uint64(math.MaxUint64)
	for _, u := range l.Missing(0, math.MaxUint32) {
		entry := ledger.Entry{Unit: u, Result: ledger.Result{Sums: make([]montecarlo.Sum, (u.Count-1)/ledger.BlockSize+1)}}
		must.Do(t, l.AddAll([]ledger.Entry{entry}))
		// A tenth of δ is this many samples of the largest value.
		samples, fewest = samples+u.Count, min(fewest, uint64(1e-4/p.Candidates[0].Trials[u.Trial].Bound*float64(u.Count)))
	}
	text := undetected(l, samples, true, 1000)
	_, odds, found := strings.Cut(text, "with a probability of at most ")
	got, err := strconv.ParseFloat(odds, 64)
	if want := math.Pow(1-float64(fewest)/float64(samples), 1000); !found || err != nil || math.Abs(got/want-1) > 0.05 {
		t.Errorf("%q, want %g", text, want)
	}
	if text := undetected(l, samples, false, 1000); text != "" {
		t.Errorf("of all blocks: %q", text)
	}
}
