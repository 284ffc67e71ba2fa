package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/spf13/cobra"

	"minsep/internal/must"
	"minsep/internal/param"
)

func TestMessage(t *testing.T) {
	c := &cobra.Command{Use: "test"}
	c.Flags().Int("min-sep", 0, "")
	c.Flags().Int("max-per-owner", 0, "")
	c.Flags().Float64("prob", 0, "")
	c.Flags().String("key", "", "")
	c.Flags().String("out", "", "")
	must.Do(t, c.ParseFlags([]string{"--min-sep=-1", "--key=k"}))
	bad := func(name string, value any) error {
		return &param.Error{Param: name, Value: value, Rule: "must be so"}
	}
	inPlan := &param.Error{Param: "shards", Value: -3, Rule: "must be so", Field: "noise.shards"}
	for _, c2 := range []struct {
		err  error
		want string
	}{
		{bad("min-sep", -1), "--min-sep -1: must be so"},
		{bad("min sep", -1), "--min-sep -1: must be so"},
		{bad("max examples per owner", 0), "--max-per-owner is missing: must be so"},
		{bad("max examples per owner", 3), "--max-per-owner 3: must be so"},
		{bad("min-sep and prob", nil), "--min-sep, --prob: must be so"},
		{bad("bound of a value", 3), "bound of a value 3: must be so"},
		{inPlan, "noise.shards -3: must be so"},
		{&param.Error{Param: "key", Value: "k", Rule: "must be so", Field: "key"}, "--key k: must be so"},
		{&param.Error{Param: "key", Value: "5", Rule: "must be a string", Field: "key"}, "key 5: must be a string"},
		{&param.Error{Param: "out", Value: "o", Rule: "must be so", Field: "out"}, "out o: must be so"},
		{errors.Join(inPlan, bad("prob", 2)), "noise.shards -3: must be so\n--prob 2: must be so"},
		{fmt.Errorf("%w: %w", bad("prob", 2), errors.New("it is not")), "--prob 2: must be so: it is not"},
		{errors.New("x/noise: it is there"), "x/noise: it is there"},
		{&param.Error{Param: "noise", Rule: "must be so", Field: "noise"}, "noise: must be so"},
		{errors.Join(bad("min-sep and prob", nil), bad("prob", 2)), "--min-sep, --prob: must be so\n--prob 2: must be so"},
	} {
		if got := message(c, c2.err); got != c2.want {
			t.Errorf("%q became %q, want %q", c2.err, got, c2.want)
		}
	}
}
