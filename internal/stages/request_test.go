package stages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

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
	there, differs, err := d.Result("account").Compare(t.Context())
	if !there || differs != nil || err != nil {
		t.Errorf("the request: there %v, %q, %v", there, differs, err)
	}
	if there, differs, err = d.Result("account").Unfinished(t.Context()); !there || differs != nil || err != nil {
		t.Errorf("the unfinished account: there %v, %q, %v", there, differs, err)
	}
	rewrite(manifest.CertificateFile, compact)
	if _, differs, err = d.Result("account").Compare(t.Context()); !slices.Contains(differs, "its bytes do not follow from its ledger") || err != nil {
		t.Errorf("the certificate too: %q, %v", differs, err)
	}
}
