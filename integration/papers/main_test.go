package main

import (
	"math"
	"strings"
	"testing"

	"minsep/internal/stattest"
)

// TestTables requires every figure that has a published one and no reservation to agree with it to
// half a unit of its last printed digit and 0.4 %, which the papers' own optimisers and noise
// multipliers leave open.
func TestTables(t *testing.T) {
	for i, table := range tables() {
		if !stattest.Long() && (i == 0 || strings.Contains(table.heading, "section 4") || strings.HasPrefix(table.heading, "arXiv 2601.22334")) {
			continue // minutes
		}
		name, _, _ := strings.Cut(table.heading, ":")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testTable(t, table)
		})
	}
}

func testTable(t *testing.T, table table) {
	rows, err := table.rows()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, r := range rows {
		if r.published == "" || strings.Contains(r.note, "certified") || strings.Contains(r.note, "largest") {
			continue
		}
		compared++
		if allowed := 1.001*halfUnit(r.published) + .004*r.value(); math.Abs(r.computed-r.value()) > allowed {
			t.Errorf("%s: %v, published %s", r.name, r.computed, r.published)
		}
	}
	if compared == 0 && !strings.Contains(table.heading, "section 4") {
		t.Errorf("%s: nothing compared", table.heading)
	}
}

// halfUnit is half a unit of the last printed digit.
func halfUnit(printed string) float64 {
	mantissa, exponent, _ := strings.Cut(printed, "e")
	power := 0.
	if exponent != "" {
		power = float64(exponent[0] - '0')
	}
	if _, decimals, found := strings.Cut(mantissa, "."); found {
		power -= float64(len(decimals))
	}
	return .5 * math.Pow(10, power)
}

func TestWrite(t *testing.T) {
	var out strings.Builder
	err := write(&out, []table{{"heading", func() ([]row, error) {
		return []row{{"a", "2.0", 2.02, ""}, {"b", "", 7, "no figure"}}, nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"heading", "+1.00 %", "no figure"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
