package words

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 examples", 1: "1 example", 2: "2 examples", -1: "-1 examples"} {
		if got := Count(n, "example"); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}
