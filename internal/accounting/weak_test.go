package accounting

import (
	"strings"
	"testing"
)

// TestWeak: claims that protect next to nobody, and ones that do.
func TestWeak(t *testing.T) {
	for _, c := range []struct {
		of     Guarantee
		owners int64
		want   string // of each reason a word
	}{
		{Guarantee{{100, 0.5}}, 0, "attack"},
		{Guarantee{{100, 0.5}}, 2, "owners attack"},
		{Guarantee{{1, 0.5}}, 1, ""},
		{Guarantee{{1, 0.5}}, 2, "owners"},
		{Guarantee{{8, 1e-5}}, 60000, ""},
		{Guarantee{{8, 1e-5}}, 99999, ""},
		{Guarantee{{8, 1e-5}}, 100000, "owners"},
		{Guarantee{{8, 1e-5}}, 0, ""},
		{Guarantee{{9.8, 1e-9}}, 1000, ""},
		{Guarantee{{10, 1e-9}}, 1000, "attack"},
		{Guarantee{{10, 1e-9}, {5, 1e-3}}, 1000, ""},
		{Guarantee{{2, 0.9}, {20, 1e-9}}, 1000, ""}, // the advantage is bounded by the first
		{nil, 10, ""},
	} {
		got := c.of.Weak(c.owners)
		want := strings.Fields(c.want)
		if len(got) != len(want) {
			t.Errorf("%v of %d owners: %q, want %q", c.of, c.owners, got, want)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%v of %d owners: %q, want %q", c.of, c.owners, got[i], want[i])
			}
		}
	}
}

// TestUnused: a certificate of which a bound or a mean is near δ carries no warning, and one that is
// far below δ in both directions does.
func TestUnused(t *testing.T) {
	for _, c := range []struct {
		directions []Verdict
		unused     bool
	}{
		{[]Verdict{{Bound: 9e-6}, {Bound: 1e-12}}, false},
		{[]Verdict{{Bound: 1e-3, Samples: 100, Mean: 6e-6}, {Bound: 1e-9}}, false},
		{[]Verdict{{Bound: 4.7e-15}, {Bound: 1e-12, Truncation: &Truncated{Cost: 2e-6}}}, false},
		{[]Verdict{{Bound: 4.7e-15}, {Bound: 1e-12}}, true},
		{[]Verdict{{Bound: 1e-3, Samples: 100, Mean: 1e-8}, {}}, true},
	} {
		certificate := Certificate{Delta: 1e-5, Points: []Claimed{{Delta: 1e-5, Directions: c.directions}}}
		if got := certificate.Unused(); (got != "") != c.unused {
			t.Errorf("%+v: %q", c.directions, got)
		}
	}
}
