package accounting

import (
	"bytes"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// toyCertificate is the file of a certificate by a toy protocol.
func toyCertificate(t *testing.T) []byte {
	t.Helper()
	const epsilon, delta = 1.0, 0.01
	need, err := GaussianNoiseMultiplier(epsilon, delta, 1)
	if err != nil {
		t.Fatal(err)
	}
	p := toyProtocol(t, epsilon, delta, 0.9*delta, 1.1*need)
	c, err := p.Certificate(run(p, rand.New(rand.NewPCG(1, 1))))
	if err != nil {
		t.Fatal(err)
	}
	data, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Columns that only describe may be added: this version reads the certificate of a newer one, and
// makes that of an older one again.
func TestCertificateMinors(t *testing.T) {
	data := toyCertificate(t)
	plain := regexp.MustCompile(`"minor": \d+,`).ReplaceAll(data, nil) // of minor 0
	minor0 := regexp.MustCompile(`(?m)^ *"(minor|graph)": .*\n`).ReplaceAll(data, nil)
	c0, err := ParseCertificate(data)
	if err != nil || c0.Graph == "" {
		t.Fatalf("the certificate of one example says nothing of the graph: %v", err)
	}
	newer := func(minor, column string) []byte {
		return bytes.Replace(plain, []byte(`"format": 1,`), []byte(`"format": 1,`+minor+column), 1)
	}
	const column = `"weather": {"in": ["words", 1]},`
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"as it is":                     {data, ""},
		"of minor 0":                   {minor0, ""},
		"newer":                        {newer(`"minor": 99,`, ""), ""},
		"newer, with a column":         {newer(`"minor": 99,`, column), ""},
		"a column without a minor":     {newer("", column), "unknown field"},
		"a column of another format":   {bytes.Replace(newer(`"minor": 99,`, column), []byte(`"format": 1`), []byte(`"format": 3`), 1), "unknown field"},
		"another format":               {bytes.Replace(data, []byte(`"format": 1`), []byte(`"format": 2`), 1), "must be 1"},
		"below 0":                      {newer(`"minor": -1,`, ""), "must be at least 0"},
		"newer, and something after":   {append(newer(`"minor": 99,`, column), '1'), "after top-level value"},
		"newer, another σ in capitals": {bytes.Replace(newer(`"minor": 99,`, ""), []byte(`"noise_multiplier":`), []byte(`"noise_multiplier": 0.1, "Noise_multiplier":`), 1), "given twice"},
		"another σ":                    {bytes.Replace(data, []byte(`"noise_multiplier":`), []byte(`"noise_multiplier": 0.1, "noise_multiplier":`), 1), "given twice"},
		"newer, and not proven":        {bytes.Replace(newer(`"minor": 99,`, column), []byte(`"status": "verified"`), []byte(`"status": "other"`), 1), "status"},
	} {
		read, err := ParseCertificate(c.data)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if c.want != "" || err != nil {
			continue
		}
		if read.Newer() != strings.HasPrefix(name, "newer") {
			t.Errorf("%s: newer is %v", name, read.Newer())
		}
		want := data
		if name == "of minor 0" {
			want = minor0
		}
		if again, err := c0.As(read.Minor).Encode(); err != nil || !bytes.Equal(again, want) {
			t.Errorf("%s: written for it, the certificate is\n%s(%v), want\n%s", name, again, err, want)
		}
		if again, err := read.As(read.Minor).Encode(); err != nil || !bytes.Equal(again, want) {
			t.Errorf("%s: without what is not known it is\n%s(%v), want\n%s", name, again, err, want)
		}
	}
}

func TestDropNewer(t *testing.T) {
	type columns struct {
		First  string
		Second []int `since:"1"`
		Third  int   `since:"2"`
	}
	all := columns{"a", []int{1}, 2}
	for minor, want := range []columns{{"a", nil, 0}, {"a", []int{1}, 0}, all, all} {
		got := all
		if dropNewer(reflect.ValueOf(&got).Elem(), minor); !reflect.DeepEqual(got, want) {
			t.Errorf("minor %d: %+v, want %+v", minor, got, want)
		}
	}
}

// TestEveryColumnIsDocumented looks for each field of a certificate in docs/certificate.md.
func TestEveryColumnIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/certificate.md")
	if err != nil {
		t.Fatal(err)
	}
	c := reflect.TypeFor[Certificate]()
	for i := range c.NumField() {
		name, _, _ := strings.Cut(c.Field(i).Tag.Get("json"), ",")
		if !bytes.Contains(page, []byte("`"+name+"`")) && !bytes.Contains(page, []byte("| `"+name+".")) {
			t.Errorf("docs/certificate.md has no row for %s", name)
		}
	}
}
