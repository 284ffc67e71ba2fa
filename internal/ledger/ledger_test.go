package ledger

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/sampling"
)

// protocol has three candidates, the last proven, of 1000-odd samples a trial.
func protocol(t testing.TB) *accounting.Protocol {
	t.Helper()
	th, tests, err := accounting.Claim{Delta: 0.1}.Allocate([]accounting.Goal{{Bound: 0.5, Mean: 0.08}})
	must.Do(t, err)
	p := &accounting.Protocol{
		Format: 1, CodeVersion: "test", KernelID: "toy",
		Run: accounting.Run{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 1, Steps: 1, MinSep: 1}},
			Strategy: mechanism.Identity(1), MaxExamplesPerOwner: 1},
		Points: []accounting.Point{{Epsilon: 1, Delta: 0.1, Thresholds: th}},
	}
	for i, sigma := range []float64{1, 2, 3} {
		c := accounting.Candidate{NoiseMultiplier: sigma}
		for _, d := range montecarlo.Directions {
			trial := accounting.Trial{Direction: d, Method: accounting.MonteCarlo, Bound: 0.5, Samples: tests[0].Samples}
			if i == 2 {
				trial = accounting.Trial{Direction: d, Method: accounting.PLD, Bound: 0.01}
			}
			c.Trials = append(c.Trials, trial)
		}
		p.Candidates = append(p.Candidates, c)
	}
	return p
}

// compute is a unit's result, a function of the unit alone, of mean 0.05.
func compute(u Unit) (r Result) {
	for i := u.First; i < u.First+u.Count; i++ {
		rng := rand.New(rand.NewPCG(uint64(u.Candidate)<<32|uint64(u.Trial), i))
		if (i-u.First)%BlockSize == 0 {
			r.Sums = append(r.Sums, montecarlo.Sum{})
		}
		r.Sums[len(r.Sums)-1].Add(0.1 * rng.Float64() / 0.5)
	}
	return r
}

// one is the entry of one unit.
func one(u Unit, r Result) []Entry { return []Entry{{u, r}} }

// finish computes what is missing, in random order, and returns the certificate.
func finish(t testing.TB, l *Ledger, size uint64, rng *rand.Rand) []byte {
	t.Helper()
	for c := range l.Protocol().Candidates {
		units := l.Missing(c, size)
		rng.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
		for _, u := range units {
			must.Do(t, l.AddAll(one(u, compute(u))))
		}
		if left := l.Missing(c, size); len(left) > 0 {
			t.Fatalf("candidate %d: %d units are missing", c, len(left))
		}
	}
	cert := must.Get(l.Certificate())(t)
	data := must.Get(cert.Encode())(t)
	return data
}

func create(t testing.TB, dir string) *Ledger {
	t.Helper()
	l := must.Get(Create(dir, protocol(t)))(t)
	return l
}

// TestSameCertificate for any size and order of units.
func TestSameCertificate(t *testing.T) {
	want := finish(t, create(t, t.TempDir()), 100, rand.New(rand.NewPCG(1, 1)))
	for i, size := range []uint64{7, 64, 1 << 40} {
		if got := finish(t, create(t, t.TempDir()), size, rand.New(rand.NewPCG(2, uint64(i)))); !bytes.Equal(got, want) {
			t.Errorf("units of %d give another certificate", size)
		}
	}
}

// TestGoesOn opens a ledger again after each part of its units, and after damage.
func TestGoesOn(t *testing.T) {
	dir := t.TempDir()
	want := finish(t, create(t, dir), 400, rand.New(rand.NewPCG(3, 3)))
	log := must.Get(os.ReadFile(filepath.Join(dir, UnitsFile)))(t)
	lines := bytes.SplitAfter(log, []byte{'\n'})
	lines = lines[:len(lines)-1] // the last one is empty
	for n := range len(lines) + 1 {
		must.Do(t, os.WriteFile(filepath.Join(dir, UnitsFile), bytes.Join(lines[:n], nil), 0o600))
		l := must.Get(Open(dir))(t)
		has := 0
		for range l.Units {
			has++
		}
		if has != n {
			t.Fatalf("%d units are there, want %d", has, n)
		}
		if got := finish(t, l, 400, rand.New(rand.NewPCG(4, 4))); !bytes.Equal(got, want) {
			t.Fatalf("after %d units: another certificate", n)
		}
		if again, err := os.ReadFile(filepath.Join(dir, UnitsFile)); err != nil || !bytes.Equal(again, log) {
			t.Errorf("after %d units: another log (%v)", n, err)
		}
	}
	broken := bytes.Clone(log)
	broken[len(log)/3] ^= 1
	torn := log[:len(log)-5]
	must.Do(t, os.WriteFile(filepath.Join(dir, UnitsFile), torn, 0o600))
	if _, err := Read(t.Context(), dir); !errors.As(err, new(*CorruptError)) {
		t.Errorf("a torn line, read only: %v", err)
	}
	if got := finish(t, must.Get(Open(dir))(t), 400, rand.New(rand.NewPCG(5, 5))); !bytes.Equal(got, want) {
		t.Error("after a torn line: another certificate")
	}
	if again := must.Get(os.ReadFile(filepath.Join(dir, UnitsFile)))(t); !bytes.Equal(again, log) {
		t.Error("after a torn line: another log")
	}
	for name, damaged := range map[string][]byte{"a flipped bit": broken, "a torn line with an end": append(bytes.Clone(torn), '\n')} {
		must.Do(t, os.WriteFile(filepath.Join(dir, UnitsFile), damaged, 0o600))
		var corrupt *CorruptError
		if _, err := Open(dir); !errors.As(err, &corrupt) || !strings.Contains(err.Error(), "or remove this line and all after it") { // as above
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir)
	units := l.Missing(0, 100)
	good := units[1]
	must.Do(t, l.AddAll(one(good, compute(good))))
	if err := l.AddAll(one(good, compute(good))); err != nil {
		t.Errorf("the same unit again: %v", err)
	}
	for name, change := range map[string]func(u *Unit, r *Result){
		"configuration": func(u *Unit, _ *Result) { u.Configuration = l.Configuration()[1:] + "0" },
		"kernel":        func(u *Unit, _ *Result) { u.KernelID = "other" },
		"purpose":       func(u *Unit, _ *Result) { u.Purpose = "estimate" },
		"candidate":     func(u *Unit, _ *Result) { u.Candidate = 9 },
		"trial":         func(u *Unit, _ *Result) { u.Trial = -1 },
		"no samples":    func(u *Unit, _ *Result) { u.Candidate = 2 },
		"beyond":        func(u *Unit, _ *Result) { u.First = 1 << 30 },
		"overflow":      func(u *Unit, _ *Result) { u.First = 1<<64 - 1 },
		"empty":         func(u *Unit, _ *Result) { u.Count = 0 },
		"overlap":       func(u *Unit, _ *Result) { u.First, u.Count = 150, 100 },
		"inside":        func(u *Unit, _ *Result) { u.First, u.Count = 150, 10 },
		"around":        func(u *Unit, _ *Result) { u.First, u.Count = 50, 200 },
		"other result":  func(_ *Unit, r *Result) { r.Sums[0].Add(0.5) },
		"sums of two":   func(_ *Unit, r *Result) { r.Sums = append(r.Sums, r.Sums[0]) },
		"no sum":        func(_ *Unit, r *Result) { r.Sums = nil },
		"no first sum":  func(u *Unit, r *Result) { u.First, u.Count = 200, 300 },
		"sum too large": func(u *Unit, r *Result) {
			u.First = 0
			for range 200 {
				r.Sums[0].Add(1)
			}
		},
	} {
		u, r := good, compute(good)
		change(&u, &r)
		var refused *RefusedError
		if err := l.AddAll(one(u, r)); !errors.As(err, &refused) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	other := protocol(t)
	other.CodeVersion = "another"
	if _, err := Create(dir, other); !errors.Is(err, ErrOtherProtocol) {
		t.Errorf("another protocol: %v", err)
	}
	if len(l.Tallies()) != 0 {
		t.Error("an unfinished trial was added up")
	}
	r := must.Get(Read(t.Context(), dir))(t)
	must.Fail(t, "a ledger opened to be read", "opened to be read")(r.AddAll(one(units[0], compute(units[0]))))
	// Units without a protocol are not taken over.
	must.Do(t, os.Remove(filepath.Join(dir, ProtocolFile)))
	if _, err := Create(dir, other); !errors.Is(err, ErrOtherProtocol) {
		t.Errorf("units without a protocol: %v", err)
	}
}

// TestUnitsOfAnotherFolder moves half of a verification to another folder.
func TestUnitsOfAnotherFolder(t *testing.T) {
	a, b := create(t, t.TempDir()), create(t, t.TempDir())
	want := finish(t, create(t, t.TempDir()), 100, rand.New(rand.NewPCG(1, 1)))
	for i, u := range append(a.Missing(0, 50), a.Missing(1, 50)...) {
		l := a
		if i%2 == 0 {
			l = b
		}
		must.Do(t, l.AddAll(one(u, compute(u))))
	}
	for u, r := range b.Units {
		must.Do(t, a.AddAll(one(u, r)))
	}
	if got := finish(t, a, 50, rand.New(rand.NewPCG(1, 1))); !bytes.Equal(got, want) {
		t.Error("another certificate from two folders")
	}
}

func FuzzParseLine(f *testing.F) {
	line, _ := entry{Unit: Unit{Purpose: Verify, Count: 5}}.line()
	f.Add(line[:len(line)-1])
	f.Fuzz(func(t *testing.T, data []byte) {
		if e, err := parseLine(data); err == nil {
			if _, err := e.line(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestPublicModes: a ledger is public. Its files and its folder have the modes that the umask
// leaves of 0644 and 0755.
func TestPublicModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ledger")
	l := create(t, dir)
	u := l.Missing(0, 100)[0]
	must.Do(t, l.AddAll(one(u, compute(u))))
	reference := filepath.Join(t.TempDir(), "folder")
	must.Do(t, errors.Join(os.Mkdir(reference, 0o755), os.WriteFile(filepath.Join(reference, "file"), nil, 0o644)))
	for name, like := range map[string]string{"": "", ProtocolFile: "file", UnitsFile: "file"} {
		have := must.Get(os.Stat(filepath.Join(dir, name)))(t)
		if want, err := os.Stat(filepath.Join(reference, like)); err != nil || have.Mode() != want.Mode() {
			t.Errorf("%s: %v, want %v (%v)", have.Name(), have.Mode(), want.Mode(), err)
		}
	}
}
