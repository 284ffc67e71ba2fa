// Command peers measures minsep beside jax_privacy: the same work, one core each, in turn, CPU time
// of user and system. It prints the table of docs/background/benchmarks.md: medians of the times of
// a unit of work, and of the ratios of neighbouring runs.
//
//	go run ./integration/peers -python PYTHON [-rounds 5] [-work noise]
//	go run ./integration/peers -python PYTHON -work 14,745,600
//
//	go run ./integration/peers -python PYTHON -agree [-seed 1] [-work sensitivity]
//
// The second takes minutes, and is measured once. The third asks both sides for the same
// figures of random cases, and names the disagreements.
//
// PYTHON is an interpreter with jax_privacy, such as the one of an environment in which `pip
// install jax-privacy` was run. Start and compilation are not counted.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"minsep/internal/accounting/pld"
	"minsep/internal/montecarlo"
	"minsep/internal/noise"
	"minsep/internal/pipelines"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

//go:embed peers.py
var script string

//go:embed agree.py
var agreeScript string

// work is a case. It goes to both sides as JSON.
type work struct {
	Name            string    `json:"-"`    // as it is printed
	Unit            string    `json:"-"`    // of the figures
	Scale           float64   `json:"-"`    // from CPU seconds of a unit of work to them; below 0: from its reciprocal
	Kind            string    `json:"kind"` // sample, form, noise, toeplitz, banded, dense or compose
	Steps           int       `json:"steps,omitempty"`
	MinSep          int       `json:"min_sep,omitempty"`
	Prob            float64   `json:"prob,omitempty"`
	NoiseMultiplier float64   `json:"noise_multiplier,omitempty"`
	Column          []float64 `json:"column,omitempty"` // of the strategy, Toeplitz
	Examples        int64     `json:"examples,omitempty"`
	Coordinates     int64     `json:"coordinates,omitempty"`
	Size            int       `json:"size,omitempty"` // bands of a strategy, or participations of a dense one
	WarmUp          int       `json:"warm_up"`        // units of work before
	Units           int       `json:"units"`          // of work that are measured
	Long            bool      `json:"-"`              // minutes: only where its name is asked for, once
}

// squareRoot are the coefficients of the square root of the prefix sums.
func squareRoot(bands int) []float64 {
	c := []float64{1}
	for j := 1; j < bands; j++ {
		c = append(c, c[j-1]*(1-0.5/float64(j)))
	}
	return c
}

// coordinates of a row of noise.
const coordinates = 1_000_000

func works() (all []work) {
	for _, s := range []struct {
		steps, bands int
		prob, sigma  float64
		units        int
	}{{7200, 256, 1.255e-4, 0.45, 2000}, {1024, 16, 0.0204, 0.8, 20000}, {1000, 32, 0.03, 1, 20000}} {
		all = append(all, work{Name: fmt.Sprintf("a Monte Carlo sample, direction P, n = %d, %d bands", s.steps, s.bands), Unit: "µs", Scale: 1e6,
			Kind: "sample", Steps: s.steps, MinSep: s.bands, Prob: s.prob, NoiseMultiplier: s.sigma, Column: squareRoot(s.bands), WarmUp: 100, Units: s.units})
	}
	all = append(all, work{Name: "batches, 1e6 examples, n = 1000, min-sep 16, batch 1024", Unit: "CPU-s", Scale: 1,
		Kind: "form", Steps: 1000, MinSep: 16, Prob: 1 / (1e6/1024. - 15), Examples: 1_000_000, Units: 1})
	all = append(all, work{Name: "batches, 14,745,600 examples, n = 7200, min-sep 256, batch 1793", Unit: "CPU-s", Scale: 1, Long: true,
		Kind: "form", Steps: 7200, MinSep: 256, Prob: 1 / (14_745_600/1793. - 255), Examples: 14_745_600, Units: 1})
	for _, bands := range []int{1, 2, 16, 32} {
		all = append(all, work{Name: fmt.Sprintf("noise, float32, 1e6 coordinates, bands: %d", bands), Unit: "M values a CPU-second", Scale: -coordinates / 1e6,
			Kind: "noise", Steps: 4096, Column: squareRoot(bands), Coordinates: coordinates, WarmUp: 64, Units: 64})
	}
	for _, s := range []struct {
		kind, name  string
		steps, size int
	}{{"toeplitz", "best Toeplitz strategy of 64 bands", 2048, 64}, {"banded", "best strategy of 16 bands with columns of norm one", 512, 16},
		{"dense", "best dense strategy for 8 participations", 256, 8}} {
		all = append(all, work{Name: fmt.Sprintf("%s, n = %d", s.name, s.steps), Unit: "CPU-s", Scale: 1, Kind: s.kind, Steps: s.steps, Size: s.size, WarmUp: 1, Units: 1})
	}
	return append(all, work{Name: "ε of DP-SGD by PLD, q = .01, σ = 1, T = 1000, grid 1e-4", Unit: "CPU-ms", Scale: 1e3,
		Kind: "compose", Steps: 1000, Prob: .01, NoiseMultiplier: 1, WarmUp: 1, Units: 5})
}

func main() {
	python := flag.String("python", "python3", "interpreter with jax_privacy")
	rounds := flag.Int("rounds", 5, "measurements of each side")
	pattern := flag.String("work", "", "only work whose name holds this")
	one := flag.String("case", "", "measure this case, as JSON, in this process")
	compare := flag.Bool("agree", false, "compare figures on random cases in place of times")
	seed := flag.Uint64("seed", 1, "of the random cases")
	flag.Parse()
	if *compare {
		if err := agree(*python, *pattern, *seed); err != nil {
			fmt.Fprintln(os.Stderr, "peers:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*python, *rounds, *pattern, *one); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(python string, rounds int, pattern, one string) error {
	if one != "" {
		var w work
		if err := json.Unmarshal([]byte(one), &w); err != nil {
			return err
		}
		seconds, rmse, err := ours(w)
		fmt.Println(seconds, rmse)
		return err
	}
	if rounds < 1 {
		return fmt.Errorf("-rounds %d: must be at least 1", rounds)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // a child process has the core of the thread that starts it
	var core unix.CPUSet
	core.Set(0)
	if err := unix.SchedSetaffinity(0, &core); err != nil {
		return err
	}
	fmt.Println("| work | minsep | jax_privacy | ratio | its error, to minsep's |\n|---|---|---|---|---|")
	for _, w := range works() {
		if !strings.Contains(w.Name, pattern) || w.Long && pattern == "" {
			continue
		}
		text, err := json.Marshal(w)
		if err != nil {
			return err
		}
		var mine, peers, ratios []float64
		errors := ""
		if w.Long {
			rounds = 1
		}
		for range rounds {
			a, ours, err := measured(self, "-case", string(text))
			if err != nil {
				return err
			}
			b, theirs, err := measured(python, "-c", script, string(text))
			if err != nil {
				return err
			}
			mine, peers, ratios = append(mine, w.figure(a)), append(peers, w.figure(b)), append(ratios, b/a)
			if ours > 0 {
				errors = fmt.Sprintf("%.4f", theirs/ours)
			}
		}
		fmt.Printf("| %s | %.3g %s | %.3g | %.3g | %s |\n", w.Name, median(mine), w.Unit, median(peers), median(ratios), errors)
	}
	return nil
}

// figure is the printed number for the CPU seconds of a unit of work.
func (w work) figure(seconds float64) float64 {
	if w.Scale < 0 {
		return -w.Scale / seconds
	}
	return w.Scale * seconds
}

func median(list []float64) float64 {
	slices.Sort(list)
	return (list[len(list)/2] + list[(len(list)-1)/2]) / 2
}

// measured runs one side, which prints CPU seconds of a unit of work, and the error of the strategy
// that it made or 0.
func measured(program string, args ...string) (seconds, rmse float64, err error) {
	c := exec.Command(program, args...)
	c.Env = append(os.Environ(), "GOMAXPROCS=1", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "JAX_PLATFORMS=cpu")
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", program, err)
	}
	_, err = fmt.Sscan(string(out), &seconds, &rmse)
	return seconds, rmse, err
}

// ours is minsep's side of a case: CPU seconds of a unit of work, and the error of the strategy
// that it made, or 0.
func ours(w work) (seconds, rmse float64, err error) {
	do, err := prepare(w, &rmse)
	if err != nil {
		return 0, 0, err
	}
	if w.WarmUp > 0 {
		if err := do(w.WarmUp); err != nil {
			return 0, 0, err
		}
	}
	begin := cpu()
	err = do(w.Units)
	return (cpu() - begin) / float64(w.Units), rmse, err
}

// cpu is the CPU time of this process so far, in seconds.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return math.NaN()
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func prepare(w work, rmse *float64) (do func(units int) error, err error) {
	key := stream.PublicKey("peers", nil)
	strategy := &mechanism.Strategy{Kind: mechanism.KindBSR, Steps: w.Steps, Toeplitz: w.Column}
	switch w.Kind {
	case "sample":
		sampler, err := montecarlo.NewSampler(montecarlo.Spec{Scheme: montecarlo.BMinSep, Steps: w.Steps, MinSep: w.MinSep, Prob: w.Prob, WarmStart: true,
			NoiseMultiplier: w.NoiseMultiplier, Strategy: strategy}, montecarlo.P, key)
		first := uint64(0)
		return func(units int) error {
			losses := make([]float64, units)
			sampler.Losses(losses, first)
			first += 1 << 32
			return nil
		}, err
	case "form":
		return func(int) error { return form(w) }, nil
	case "toeplitz", "banded", "dense":
		return func(int) error { return optimize(w, rmse) }, nil
	case "compose":
		return func(units int) error {
			for range units {
				c, err := pld.Compose([]pld.Step{{Event: pld.Event{Prob: w.Prob, NoiseMultiplier: w.NoiseMultiplier, Sensitivity: 1, Examples: 1}, Count: w.Steps}}, pld.Options{Grid: 1e-4})
				if err == nil {
					_, err = c.Epsilon(1e-5)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}, nil
	case "noise":
		if len(w.Column) == 1 {
			strategy = mechanism.Identity(w.Steps)
		}
		recipe, err := noise.NewRecipe(noise.Config{Strategy: strategy, Coordinates: w.Coordinates, NoiseMultiplier: 1, ClipNorm: 1})
		if err != nil {
			return nil, err
		}
		root := stream.NewRoot()
		recipe.Bind(root, stream.NewRunID(), "")
		recipe.Draw()
		g, err := recipe.Generator(recipe.Key(root, recipe.RunID), 0, w.Coordinates)
		if err != nil {
			return nil, err
		}
		g.Workers = 1
		rows := make([]float32, int64(max(w.WarmUp, w.Units))*w.Coordinates) // in one call, as files are made
		return func(units int) error { return g.Fill32(rows[:int64(units)*w.Coordinates]) }, nil
	}
	return nil, fmt.Errorf("no work of kind %q", w.Kind)
}

// optimize makes the best strategy of a kind for prefix sums.
func optimize(w work, rmse *float64) (err error) {
	p := mechanism.Problem{Workload: mechanism.Prefix(w.Steps)}
	var c mechanism.Convergence
	switch w.Kind {
	case "toeplitz":
		_, c, err = p.OptimalToeplitz(w.Size)
	case "banded":
		_, c, err = p.OptimalBanded(w.Size)
	default:
		p.Participation = mechanism.Participation{MinSep: w.Steps / w.Size, Phases: true}
		_, c, err = p.OptimalDense(1e-5)
	}
	*rmse = math.Sqrt(c.Loss)
	return err
}

// form forms batches and writes them to files.
func form(w work) (err error) {
	dir, err := os.MkdirTemp("", "minsep-peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	key := filepath.Join(dir, "key")
	if err := stream.CreateKeyFile(key); err != nil {
		return err
	}
	if err := os.Setenv("XDG_STATE_HOME", dir); err != nil {
		return err
	}
	stage := pipelines.Form{Params: sampling.Params{Scheme: "b-min-sep", Steps: w.Steps, MinSep: w.MinSep, Prob: w.Prob}, Examples: w.Examples}
	_, err = stage.Run(context.Background(), pipelines.Options{Out: filepath.Join(dir, "run"), KeyFile: key})
	return err
}
