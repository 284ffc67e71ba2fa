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
