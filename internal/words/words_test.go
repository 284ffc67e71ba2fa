package words

import (
	"math"
	"testing"
)

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 examples", 1: "1 example", 2: "2 examples", -1: "-1 examples"} {
		if got := Count(n, "example"); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}

func TestList(t *testing.T) {
	for want, list := range map[string][]string{"": nil, "a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"}} {
		if got := List(list); got != want {
			t.Errorf("%q: %q", list, got)
		}
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -100: "-100", 1803534: "1,803,534", math.MinInt64: "-9,223,372,036,854,775,808"} {
		if got := Grouped(n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}

func TestTimes(t *testing.T) {
	for ratio, want := range map[float64]string{1.0004: "as much", 1: "as much", 1.006: "1.01 times as much", 0.5154: "0.515 times as much"} {
		if got := Times(ratio); got != want {
			t.Errorf("Times(%g) = %q, want %q", ratio, got, want)
		}
	}
}
