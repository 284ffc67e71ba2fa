package stages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/store"
)

// TestRequestInOtherBytes: white space that an editor has changed in a request is no difference, and
// hides none of the certificate.
func TestRequestInOtherBytes(t *testing.T) {
	d := newResults(t, fmt.Sprintf(planOfNumbers, poisson, identity))
	d.make("strategy")
	d.make("account")
	rewrite := func(name string, change func(b []byte) []byte) {
		b, err := os.ReadFile(store.Join(d.Out, name))
		d.must(err)
		d.must(os.WriteFile(store.Join(d.Out, name), change(b), 0o644))
	}
	compact := func(b []byte) []byte {
		var line bytes.Buffer
		d.must(json.Compact(&line, b))
		return line.Bytes()
	}
	rewrite(manifest.LedgerFolder+"/"+manifest.RequestFile, compact)
	compare := func(name, want string) {
		t.Helper()
		there, differs, err := d.Compare(t.Context(), Named("account"))
		if got := fmt.Sprint(differs, err); !there && err == nil || !strings.Contains(got, want) {
			t.Errorf("%s: there %v, %s, want %s", name, there, got, want)
		}
	}
	compare("the request", "[] <nil>")
	d.Plan.Privacy.Epsilon = 5
	compare("another plan", "epsilon is 4 there, 5 in the plan")
	d.Plan.Privacy.Epsilon = 4
	rewrite(manifest.CertificateFile, compact)
	compare("the certificate too", "does not follow from the ledger beside it")
}

// TestForgedBound: a certificate that follows from a ledger with less noise than its proof needs is not taken for
// the plan's, though it is of the plan's request.
func TestForgedBound(t *testing.T) {
	d := newResults(t, fmt.Sprintf(planOfNumbers, poisson, identity))
	d.make("strategy")
	d.make("account")
	folder := store.Join(d.Out, manifest.LedgerFolder)
	forge := func(file string, encode func(l *ledger.Ledger) ([]byte, error)) {
		l, err := ledger.Read(t.Context(), folder)
		d.must(err)
		b, err := encode(l)
		d.must(err)
		d.must(os.WriteFile(file, b, 0o644))
	}
	forge(store.Join(folder, ledger.ProtocolFile), func(l *ledger.Ledger) ([]byte, error) {
		l.Protocol().Candidates[0].NoiseMultiplier *= 0.9
		return l.Protocol().Encode()
	})
	forge(store.Join(d.Out, manifest.CertificateFile), (*ledger.Ledger).CertificateFile)
	if _, differs, err := d.Compare(t.Context(), Named("account")); err != nil || !strings.Contains(strings.Join(differs, ""), "does not hold") {
		t.Errorf("%q, %v", differs, err)
	}
}

// TestResultsOfTheRun: a result is the run's if run.json names its files, or else if its index is of the run.
func TestResultsOfTheRun(t *testing.T) {
	d := newResults(t, fmt.Sprintf(planOfNumbers, poisson, identity))
	strategy := Named("strategy")
	compare := func(name, want string) {
		t.Helper()
		there, differs, err := d.Compare(t.Context(), strategy)
		if got := strings.Join(differs, "; "); err != nil || got != want || there == (want == "" && name == "nothing") {
			t.Errorf("%s: there %v, %q, %v, want %q", name, there, got, err, want)
		}
	}
	compare("nothing", "")
	d.make("strategy")
	compare("of the run", "")
	files, err := d.Vouching(t.Context(), strategy)
	d.must(err)
	d.Run.RunID[0]++
	compare("of another run", "it belongs to another run")
	d.Run.Stages = map[string]map[string]manifest.Digest{"strategy": files}
	compare("named", "")
	files["strategy/index.json"] = manifest.Digest{}
	compare("another is named", "strategy/index.json is not the one that run.json names")
}
