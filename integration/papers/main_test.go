package main

import (
	"math"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/internal/stattest"
)

// TestTables requires every figure that has a published one and no reservation to agree with it to
// half a unit of its last printed digit and 0.4 %, which the papers' own optimisers and noise
// multipliers leave open.
func TestTables(t *testing.T) {
	for _, table := range tables() {
		if slow := strings.Contains(table.heading, "Table 1:") || strings.Contains(table.heading, "section 4") || strings.Contains(table.heading, "2601.22334") ||
			strings.Contains(table.heading, "δ = 1e-8"); slow && !stattest.Long() {
			continue // minutes
		}
		name, _, _ := strings.Cut(table.heading, ":")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testTable(t, table)
		})
	}
}

// inWords is how far a figure may be from what a paper says of it in words.
const inWords = .03

func testTable(t *testing.T, table table) {
	rows := must.Get(table.rows())(t)
	compared := 0
	for _, r := range rows {
		if r.published == "" || r.open {
			continue
		}
		compared++
		if strings.HasPrefix(r.published, "≈") {
			if math.Abs(r.computed/r.value()-1) > inWords {
				t.Errorf("%s: %v, published %s", r.name, r.computed, r.published)
			}
			continue
		}
		if r.bound() {
			if !r.holds() {
				t.Errorf("%s: %v, published %s", r.name, r.computed, r.published)
			}
			continue
		}
		if allowed := 1.001*halfUnit(r.published) + .004*r.value(); math.Abs(r.computed-r.value()) > allowed {
			t.Errorf("%s: %v, published %s", r.name, r.computed, r.published)
		}
	}
	if compared == 0 && !strings.Contains(table.heading, "section 4") && !strings.Contains(table.heading, "picture") && !strings.Contains(table.heading, "2(b)") {
		t.Errorf("%s: nothing compared", table.heading)
	}
}

func TestWrite(t *testing.T) {
	var out strings.Builder
	err := write(&out, []table{{"heading", func() ([]row, error) {
		return []row{
			{name: "a", published: "2.0", computed: 2.02}, {name: "b", computed: 7, note: "no figure"}, {name: "c", published: "<3", computed: 3.1},
			{name: "d", published: "2.0", computed: 2.4, stdErr: .1}, {name: "e", published: "2.0", computed: 1.9, stdErr: .1},
			{name: "f", published: "4.00", computed: 4.4, stdErr: .1}, {name: "g", published: "4.00", computed: 8, open: true},
		}, nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"heading", "+1.00 %", "no figure", "does not hold", "2.4 ± 0.1",
		"median 1.0550, 0.9500 to 1.2000, of 4 figures", "further than three of our standard errors: d, f\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
