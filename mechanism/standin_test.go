package mechanism_test

import (
	"testing"

	"minsep/mechanism"
)

// TestStandIn holds the number of bands by which a training run is refused before its strategy is
// made against the strategies that are made: with the parameter of the family chosen, inside its
// range and at its low end, whole and of stamps.
func TestStandIn(t *testing.T) {
	var kinds []string
	for _, f := range mechanism.Families() {
		kinds = append(kinds, f.Kind)
	}
	for _, f := range mechanism.Families() {
		compared := 0
		for _, steps := range []int{1, 2, 12} {
			for size := 1; size <= 4; size++ {
				for _, stamps := range []int{0, 1, 2, 3} {
					for corner := range 3 {
						p := mechanism.Params{Kind: f.Kind, Steps: steps, Stamps: stamps, Bands: size, Buffers: size, Arity: size + 1}.Among(kinds, f.Kind)
						if f.TakesColumn {
							p.Column = []float64{1, 0.5, 0}[:min(size, 3)]
						}
						if f.Parameter != nil && corner > 0 {
							p.SetParameter(f.Parameter.Name, []float64{0, max(0, f.Parameter.Low), 0.5}[corner])
						}
						if p.Validate() != nil {
							continue
						}
						standIn := p.StandIn()
						if standIn == nil {
							continue
						}
						made, err := p.Make(t.Context(), nil)
						if err != nil { // such as more buffers than steps
							continue
						}
						compared++
						if got, want := standIn.Bands(), made.Bands(); got != want {
							t.Errorf("%+v: taken for %d bands, it has %d", p, got, want)
						}
					}
				}
			}
		}
		if compared == 0 {
			t.Errorf("%s: no strategies were compared", f.Kind)
		}
	}
}
