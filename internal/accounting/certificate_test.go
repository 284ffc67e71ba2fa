package accounting

import (
	"bytes"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"minsep/internal/must"
)

// toyCertificate is the file of a certificate by a toy protocol.
func toyCertificate(t *testing.T) []byte {
	t.Helper()
	const epsilon, delta = 1.0, 0.01
	need := must.Get(GaussianNoiseMultiplier(epsilon, delta, 1))(t)
	p := toyProtocol(t, epsilon, delta, 0.9*delta, 1.1*need)
	c := must.Get(p.Certificate(run(p, rand.New(rand.NewPCG(1, 1)))))(t)
	data := must.Get(c.Encode())(t)
	return data
}

// TestCertificateIsStrict: a certificate of unknown or repeated fields is refused, since readers would
// differ in what it says.
func TestCertificateIsStrict(t *testing.T) {
	data := toyCertificate(t)
	for name, c := range map[string]struct{ old, new, want string }{
		"an unknown field":        {`"format": 1,`, `"format": 1, "weather": "words",`, "unknown field"},
		"another format":          {`"format": 1`, `"format": 2`, "must be 1"},
		"another σ in capitals":   {`"noise_multiplier":`, `"noise_multiplier": 0.1, "Noise_multiplier":`, "given twice"},
		"another σ":               {`"noise_multiplier":`, `"noise_multiplier": 0.1, "noise_multiplier":`, "given twice"},
		"no status of ours":       {`"status": "verified"`, `"status": "other"`, "status"},
		"something after the end": {"\n}\n", "\n}\n1", "something follows"},
	} {
		changed := bytes.Replace(data, []byte(c.old), []byte(c.new), 1)
		if _, err := ParseCertificate(changed); bytes.Equal(changed, data) || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if c, err := ParseCertificate(data); err != nil || c.Graph == "" {
		t.Errorf("as it is: %v", err)
	}
}

// TestEveryColumnIsDocumented looks for each field of a certificate in docs/certificate.md.
func TestEveryColumnIsDocumented(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/certificate.md"))(t)
	c := reflect.TypeFor[Certificate]()
	for i := range c.NumField() {
		name, _, _ := strings.Cut(c.Field(i).Tag.Get("json"), ",")
		if !bytes.Contains(page, []byte("`"+name+"`")) && !bytes.Contains(page, []byte("| `"+name+".")) {
			t.Errorf("docs/certificate.md has no row for %s", name)
		}
	}
}
