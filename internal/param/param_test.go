package param_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"minsep/internal/param"
)

func TestCheckerReportsEveryFault(t *testing.T) {
	c := param.Checker{}
	c.AtLeast("min-sep", 0, 1)
	c.Probability("prob", math.NaN())
	c.Positive("noise multiplier", math.Inf(1))
	c.Require(true, "steps", 10, "never broken")
	err := c.Err()
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 3 {
		t.Fatalf("got %d faults, want 3:\n%v", len(lines), err)
	}
	if want := "min-sep 0: must be at least 1"; lines[0] != want {
		t.Errorf("first fault %q, want %q", lines[0], want)
	}
	var pe *param.Error
	if !errors.As(err, &pe) || pe.Param != "min-sep" {
		t.Errorf("errors.As found %+v, want the min-sep fault", pe)
	}
}

func TestCheckerWithoutFaults(t *testing.T) {
	c := param.Checker{}
	c.AtLeast("min-sep", 1, 1)
	c.Probability("prob", 1)
	c.Positive("noise multiplier", 0.5)
	if err := c.Err(); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}
