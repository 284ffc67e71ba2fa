package words

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"plan", "run", "batch-size", "examples", "epsilon", "epochs", "max-per-owner"}
	for word, want := range map[string]string{
		"pln": "plan", "batchsize": "batch-size", "batch_size": "batch-size", "exmples": "examples", "Epsilon": "epsilon", "epoch": "epochs",
		"runs": "run", "rnu": "run", "max-owner": "", "nonsense": "", "x": "", "": "", "max-pre-owner": "max-per-owner",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
