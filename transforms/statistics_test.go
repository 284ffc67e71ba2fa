package transforms

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/must"
	"minsep/internal/statistics"
	"minsep/privacy"
)

func init() {
	register.Function1x2(valueOf)
	register.Function1x2(namelessOf)
	register.Function1x0(takeRelease)
}

// valueOf gives examples a label; numbers of people and more are in no table.
func valueOf(i int) (string, Value) {
	return fmt.Sprintf("SECRET-%05d", i), Value{Column: "label", Text: []string{"even", "odd"}[i%2]}
}

// namelessOf gives examples a value of no column, which counts nowhere and makes no member.
func namelessOf(i int) (string, Value) { return fmt.Sprintf("SECRET-%05d", i), Value{} }

var released struct {
	sync.Mutex
	list []privacy.Release
}

func takeRelease(r privacy.Release) {
	released.Lock()
	defer released.Unlock()
	released.list = append(released.list, r)
}

// next to no noise: 1/100 in the mean of a count of owners with 2 examples
var labels = privacy.Statistics{Name: "labels", Epsilon: 400, Statistics: []privacy.Statistic{
	{Column: "label", Kind: privacy.Counts, Classes: []string{"even", "odd"}}}}

// TestStatistics: on two runners, the statistics are those of the kept examples and of no others;
// a name is released once, and two values of an example fail the pipeline.
func TestStatistics(t *testing.T) {
	for _, runner := range []string{"direct", "prism"} {
		released.list, taken.rows = nil, map[string]Row[int64]{}
		training := newTraining(t)
		build := func(training *Training, of []int) (*beam.Pipeline, error) {
			p, s := beam.NewPipelineWithRoot()
			e := examples(t, s, again(training), limits)
			if err := e.Write(t.Context(), s); err != nil {
				return nil, err
			}
			beam.ParDo0(s, takeRow, must.Get(e.Rows(s))(t))
			values := beam.ParDo(s, valueOf, beam.CreateList(s, of))
			values = beam.Flatten(s, values, beam.ParDo(s, namelessOf, beam.CreateList(s, numbers(people+500))))
			release, err := Statistics(t.Context(), s, labels, e, values)
			if err == nil {
				beam.ParDo0(s, takeRelease, release)
			}
			return p, err
		}
		must.Get(beam.Run(t.Context(), runner, must.Get(build(training, numbers(people+500)))(t)))(t)
		want := [][]float64{{0, 0}}
		for id := range taken.rows {
			var i int
			fmt.Sscanf(id, "SECRET-%d", &i)
			want[0][i%2]++
		}
		if len(released.list) != 1 || !reflect.DeepEqual(released.list[0].Results, want) || released.list[0].MaxExamplesPerOwner != 2 {
			t.Errorf("%s: %+v, want %v", runner, released.list, want)
		}
		if run, err := openRun(training); err != nil || run.Examples != released.list[0].Examples {
			t.Errorf("%s: %+v, %v: want the examples of the run, %q", runner, released.list[0], err, run.Examples)
		}
		r, err := statistics.Read(t.Context(), training.dir, "labels")
		if err != nil || !reflect.DeepEqual(r, released.list[0]) {
			t.Errorf("%+v, %v", r, err)
		}
		_, s := beam.NewPipelineWithRoot()
		e := must.Get(ReadTable(t.Context(), s, training, filepath.Join(training.dir, "bounded")))(t)
		must.Fail(t, "a second release", "released already")(Statistics(t.Context(), s, labels, e, beam.ParDo(s, valueOf, beam.CreateList(s, numbers(3)))))
		twice := must.Get(build(newTraining(t), append(numbers(people), 7)))(t)
		if _, err := beam.Run(t.Context(), runner, twice); err == nil || !strings.Contains(err.Error(), "two values") || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("two values: %v", err)
		}
	}
	_, s := beam.NewPipelineWithRoot()
	if _, err := Statistics(t.Context(), s, labels, NumberedExamples(newTraining(t), 9), beam.PCollection{}); err == nil {
		t.Error("statistics of no table")
	}
	e := examples(t, s, newTraining(t), limits)
	if _, err := Statistics(t.Context(), s, labels, e, beam.ParDo(s, pairOf, beam.CreateList(s, numbers(3)))); err == nil {
		t.Error("values of another type")
	}
	e.training = &Training{}
	must.Fail(t, "the zero training", "no training is given")(Statistics(t.Context(), s, labels, e, beam.PCollection{}))
}
