package noise_test

import (
	"fmt"

	"minsep/internal/noise"
	"minsep/internal/stream"
	"minsep/mechanism"
)

// Two rows of noise for coordinates 2 to 4 of 5. The key of an example is no secret; take yours
// from a key file.
func Example() {
	root, err := stream.ParseRoot([]byte("an example key, 32 bytes of it.."))
	if err != nil {
		fmt.Println(err)
		return
	}
	recipe, err := noise.NewRecipe(noise.Config{
		Strategy:        &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 100, Toeplitz: []float64{1, 0.5}},
		Coordinates:     5,
		NoiseMultiplier: 0.75,
		ClipNorm:        1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	recipe.Bind(root, stream.RunID{1}, "root.key")
	recipe.StepBytes = []noise.StepBytes{{1}, {2}} // of an example: take recipe.Draw()
	fmt.Printf("grid %v, sensitivity %v\n", recipe.Grid(), float64(recipe.Sensitivity))

	g, err := recipe.Generator(recipe.Key(root, recipe.RunID), 2, 5)
	if err != nil {
		fmt.Println(err)
		return
	}
	g.Add(recipe.StepBytes...)
	rows := make([]float32, 2*g.Width())
	if err := g.Fill32(rows); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.4f\n%.4f\n", rows[:3], rows[3:])
	// Output:
	// grid 9.5367431640625e-07, sensitivity 1
	// [0.6083 1.1936 0.5256]
	// [0.2993 0.2220 0.1213]
}
