package mechanism_test

import (
	"context"
	"fmt"
	"os"

	"minsep/mechanism"
)

// The optimal banded Toeplitz strategy for 1000 steps, beside independent noise and noise that is
// regenerated.
func Example() {
	p := mechanism.Problem{
		Workload:      mechanism.Prefix(1000),
		Participation: mechanism.Participation{MinSep: 100},
	}
	ctx := context.Background()
	best, err := p.Make(ctx, mechanism.KindBandedToeplitz, 100)
	if err != nil {
		fmt.Println(err)
		return
	}
	lambda := .95
	cgd, err := mechanism.Params{Kind: mechanism.KindLambdaCGD, Steps: 1000, Lambda: &lambda}.Make(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var figures []mechanism.Figures
	for _, s := range []*mechanism.Strategy{mechanism.Identity(1000), best, cgd} {
		f, err := p.Figures(s)
		if err != nil {
			fmt.Println(err)
			return
		}
		figures = append(figures, f)
	}
	mechanism.WriteTable(os.Stdout, figures)
	// Output:
	//              kind  bands    RMSE   MaxSE  sensitivity          by  RMSE·sens  state  normals  mul-adds
	//          identity      1  22.372  31.623       3.1623  column-sum     70.746      0        1         0
	//   banded-toeplitz    100  3.6596  4.5676       3.1623  column-sum     11.573     99        1       100
	//        lambda-cgd   1000   4.793  5.8928       3.1792  column-sum     15.238      0        2         3
}
