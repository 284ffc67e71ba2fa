package mechanism_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"minsep/internal/must"
	"minsep/internal/param"
	"minsep/mechanism"
)

func anyFamily(mechanism.Family) bool { return true }

// small are parameters by which every family makes a strategy.
func small(kind string) mechanism.Params {
	p := mechanism.Params{Kind: kind, Steps: 48, MinSep: 12}
	f, _ := mechanism.FamilyOf(kind)
	if f.Size == mechanism.BandsSize {
		p.Bands = 6
	}
	if f.TakesColumn {
		p.Column = []float64{1, .5, .25}
	}
	return p
}

// TestEveryFamily holds what registering a family guarantees: it makes strategies of its own kind
// that are read back alike, and its parameter is what it was given.
func TestEveryFamily(t *testing.T) {
	if len(mechanism.Families()) < 16 {
		t.Fatalf("%d families", len(mechanism.Families()))
	}
	for _, f := range mechanism.Families() {
		t.Run(f.Kind, func(t *testing.T) {
			if !regexp.MustCompile(`^[a-z][a-z0-9-]*$`).MatchString(f.Kind) || f.Help == "" || strings.ContainsAny(f.Help, "\n\t") || len(f.Help) > 80 {
				t.Errorf("kind %q, help %q", f.Kind, f.Help)
			}
			p := small(f.Kind)
			s := must.Get(p.Make(t.Context(), nil))(t)
			if s.Kind != f.Kind || s.Steps != p.Steps || s.Normalized != f.Normalized {
				t.Errorf("made %s of %d steps, normalized %v", s.Kind, s.Steps, s.Normalized)
			}
			again := new(mechanism.Strategy)
			if err := json.Unmarshal(must.Get(json.Marshal(s))(t), again); err != nil || !cmp.Equal(s, again) {
				t.Errorf("read back: %v\n%s", err, cmp.Diff(s, again))
			}
			if of := p.StandIn(); of != nil && of.Bands() != s.Bands() {
				t.Errorf("the stand-in has %d bands, the strategy %d", of.Bands(), s.Bands())
			}
			if seconds := p.Seconds(); !(seconds > 0 && seconds < 1) {
				t.Errorf("%v seconds", seconds)
			}
			if f.Parameter == nil {
				if of, _, ok := mechanism.FamilyParameter(s); ok {
					t.Errorf("has the parameter %s", of.Name)
				}
				return
			}
			p.SetParameter(f.Parameter.Name, .5)
			of, value, ok := mechanism.FamilyParameter(must.Get(p.Make(t.Context(), nil))(t))
			if !ok || of.Name != f.Parameter.Name || math.Abs(value-.5) > 1e-12 {
				t.Errorf("parameter %s is %v (%v), want .5", of.Name, value, ok)
			}
			p.SetParameter(f.Parameter.Name, f.Parameter.Low-1)
			var bad *param.Error
			if err := p.Validate(); !errors.As(err, &bad) || bad.Param != f.Parameter.Name {
				t.Errorf("%s %v: %v", f.Parameter.Name, f.Parameter.Low-1, err)
			}
		})
	}
}

// TestParametersAreFields: the flag, the field of a plan and the parameter of a family go by one
// name.
func TestParametersAreFields(t *testing.T) {
	fields := map[string]bool{}
	params := reflect.TypeFor[mechanism.Params]()
	for i := range params.NumField() {
		name, _, _ := strings.Cut(params.Field(i).Tag.Get("json"), ",")
		fields[name] = true
	}
	for _, f := range mechanism.Families() {
		if f.Size != "" && !fields[f.Size] || f.Parameter != nil && !fields[f.Parameter.Name] {
			t.Errorf("%s: %q or its parameter is no field of Params", f.Kind, f.Size)
		}
	}
}

// TestFamiliesAreListed: by rank, not by the names of files.
func TestFamiliesAreListed(t *testing.T) {
	want := strings.Fields("identity banded-toeplitz amplified-toeplitz banded one-parameter bsr bfr bisr bifr band-inv lambda-cgd blt fenwick tree fft dense toeplitz")
	known := slices.DeleteFunc(mechanism.Kinds(anyFamily), func(kind string) bool { return !slices.Contains(want, kind) })
	if !slices.Equal(known, want) {
		t.Errorf("got %v, want %v", known, want)
	}
}

// TestEveryFamilyIsDocumented looks for a row of the table in docs/strategies.md.
func TestEveryFamilyIsDocumented(t *testing.T) {
	doc := must.Get(os.ReadFile("../docs/strategies.md"))(t)
	for _, kind := range mechanism.Kinds(anyFamily) {
		row := regexp.MustCompile("(?m)^\\| (`[a-z-]+`, )*`" + regexp.QuoteMeta(kind) + "`[ ,]")
		if !row.Match(doc) {
			t.Errorf("docs/strategies.md has no row for %s", kind)
		}
	}
}

// frozen are the SHA-256 of strategy files of small(kind): programs may have written such files,
// and noise and ledgers depend on their bytes. Do not change them.
var frozen = map[string]string{
	"band-inv":           "caa4688466fcd6feb0f10fc96be8cae395f98dffde38a826b6530c6e6aac8224",
	"amplified-toeplitz": "118c89bce43c6b1129e78956ab25d68bf5e8ee186cadfe07027d75b2fd243e0f",
	"banded":             "1e4fc822a3d2834b6320abc266a7a324321854aa34af8fe194fc7786908b2a92",
	"banded-toeplitz":    "ae8162e1c140d07bc3090405134935bf8fcc74b78c86adb9831f0446103801f6",
	"bfr":                "c1d6a11d9be6f6744483377f06aef1006a39ff24bb5a101e44d3f9f53a4f0a9e",
	"bifr":               "36fbbe67f35fa8a300c36571c15abbdae99e461a050978fab9ef38fcb1fda814",
	"bisr":               "234ed79db1126cca91dbac466044b9a6f617756f43de7b65b1128080bf5ef1e8",
	"blt":                "ccd78fa1e00d7b6e0d87a39e132f86d009e1436051984b6e34303627c01266d9",
	"bsr":                "cf022745c524c66281ab0e74d25e43d3b5bc0ddf3c2f4e69a0327e92aa3c16b1",
	"dense":              "6f26c857e904cf5d08b00e3d965866a4db40ead9119fcfb3425ed8ac3a695663",
	"fenwick":            "69bf244df4993c6f99e65d51f3b6f54a7ecfaa1145f1ab8492cdadac0ce0708d",
	"fft":                "fdb8e89a2d77e77684f333c66cbe8d58d4da3de1c3b7be16da3cbaff2812bade",
	"identity":           "c5f66cc9683aa7ef42317e1f7e2f5c5d9cb6fd11665bd5e4f386a593c3442c02",
	"lambda-cgd":         "ff54dec7c3c5120043338202cb782783faa142e02351ef3db29a56105964b9b1",
	"one-parameter":      "22a1216769dc17b24b9f34c6d4061044400b501f4440beccd3a578ac4bffd60b",
	"tree":               "274d44be3f0079618acf32136edf4eaaca57508dbe0fad72bfe313671f6eb81d",
}

func TestFrozenStrategies(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the last bits of optimised strategies depend on the processor; frozen on amd64")
	}
	for kind, want := range frozen {
		var file bytes.Buffer
		must.Do(t, json.NewEncoder(&file).Encode(must.Get(small(kind).Make(t.Context(), nil))(t)))
		if sum := sha256.Sum256(file.Bytes()); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: SHA-256 %x, want %s", kind, sum, want)
		}
	}
}

// endsAfter is a context that ends when it has been asked so often whether it has.
type endsAfter struct {
	context.Context
	asked, limit int
}

func (c *endsAfter) Err() error {
	if c.asked++; c.asked > c.limit {
		return context.Canceled
	}
	return nil
}

// TestMakeEnds interrupts every optimisation and every decomposition early, in the middle and late.
// No goroutine stays, and an interrupted Make asks no more than a few times before it ends.
func TestMakeEnds(t *testing.T) {
	cases := map[string]mechanism.Params{
		// the first optimum's sensitivity is only bounded, so that others follow it
		"band-inv with penalties": {Kind: "band-inv", Steps: 128, Bands: 16, MinSep: 16},
	}
	for _, kind := range strings.Fields("banded-toeplitz banded one-parameter bfr bifr band-inv lambda-cgd blt tree fft dense") {
		cases[kind] = small(kind)
	}
	for name, p := range cases {
		t.Run(name, func(t *testing.T) {
			all := &endsAfter{Context: context.Background(), limit: 1 << 40}
			must.Get(p.Make(all, nil))(t)
			if all.asked == 0 {
				t.Fatal("never asks whether it is to end")
			}
			for _, limit := range []int{0, all.asked / 2, all.asked - 1} {
				ctx := &endsAfter{Context: context.Background(), limit: limit}
				var s *mechanism.Strategy
				var err error
				synctest.Test(t, func(*testing.T) {
					s, err = p.Make(ctx, nil)
					asked := ctx.asked
					synctest.Wait() // until every goroutine that Make left has ended or stands still
					if ctx.asked != asked {
						t.Errorf("interrupted at %d of %d: a goroutine went on for %d iterations", limit, all.asked, ctx.asked-asked)
					}
				}) // panics if one stands still
				if s != nil || !errors.Is(err, context.Canceled) {
					t.Errorf("interrupted at %d of %d: %v, %v", limit, all.asked, s, err)
				}
				if more := ctx.asked - limit; more > 100 {
					t.Errorf("interrupted at %d of %d: goes on for %d iterations", limit, all.asked, more)
				}
			}
		})
	}
}

// TestSearchEnds: nothing is made once the context has ended, on the grid or in the sections.
func TestSearchEnds(t *testing.T) {
	for _, last := range []int{1, 10, 40} {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		made := 0
		_, err := mechanism.Search(ctx, mechanism.Problem{Workload: mechanism.Prefix(8)}, 0, 1, func(x float64) (*mechanism.Strategy, error) {
			if made++; made == last {
				cancel()
			}
			return mechanism.BSR(8, 4)
		})
		if made != last || !errors.Is(err, context.Canceled) {
			t.Errorf("the context ended at %d: %d made, %v", last, made, err)
		}
	}
}

// Every family by its own name, and the best member of one.
func ExampleParams_Make() {
	p := mechanism.Params{Kind: "bisr", Steps: 1000, Bands: 4, MinSep: 100}
	s, err := p.Make(context.Background(), nil)
	if err != nil {
		panic(err)
	}
	json.NewEncoder(os.Stdout).Encode(s)
	// Output: {"version":1,"kind":"bisr","steps":1000,"inverse_toeplitz":[1,-0.5,-0.125,-0.0625]}
}
