package main

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"
)

func TestFit(t *testing.T) {
	x, y := []float64{1, 2, 4}, []float64{5, 7, 11}
	if l := fit(x, y); math.Abs(l.Base-3) > 1e-12 || math.Abs(l.Slope-2) > 1e-12 || l.Worst > 1e-12 {
		t.Errorf("fit %+v of 3 + 2x", l)
	}
	if l := proportional([]float64{1, 2}, []float64{2, 4.2}); math.Abs(l.Slope-2.08) > 1e-12 || math.Abs(l.Worst-.04) > 1e-12 {
		t.Errorf("%+v", l)
	}
}

// TestGraphsHaveTheirSize counts the edges of every shape and looks for the hot keys.
func TestGraphsHaveTheirSize(t *testing.T) {
	for _, s := range shapes {
		n := int64(0)
		examples, owners := map[int64]int{}, map[int64]int{}
		s.edges(30_000, func(example, owner int64) {
			n++
			examples[example]++
			owners[owner]++
		})
		if n < 29_999 || n > 30_000 {
			t.Errorf("%s: %d edges", s.name, n)
		}
		if hot := strings.Contains(s.name, "hot"); hot != (owners[-1] > 9_000) {
			t.Errorf("%s: an owner of %d examples", s.name, owners[-1])
		}
		if wide := strings.Contains(s.name, "wide"); wide != (examples[math.MaxInt64] > 7_000) {
			t.Errorf("%s: an example of %d owners", s.name, examples[math.MaxInt64])
		}
	}
}

// TestDocsHaveTheModel compares docs/background/scale.md with what the points give.
func TestDocsHaveTheModel(t *testing.T) {
	points, err := readPoints("points.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	newModel(points).report(&out)
	doc, err := os.ReadFile("../../docs/background/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(strings.TrimSpace(out.String()), "\n\n") {
		if !strings.Contains(string(doc), part) {
			t.Errorf("docs/background/scale.md lacks what `go run ./integration/scale -fit` prints:\n%s", part)
		}
	}
}
