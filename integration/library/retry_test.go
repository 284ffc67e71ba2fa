package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/reflectx"
	//lint:ignore SA1019 it is the default runner
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"minsep/minseptest"
	"minsep/transforms"
)

// TestRetries runs every bundle twice, as a runner does that has lost what the first attempt emitted:
// the second one must emit the same, and files and batches must be those of a run without retries.
func TestRetries(t *testing.T) {
	plain := map[string]string{}
	for name := range pipelines {
		folder := t.TempDir()
		p := everything(t.Context(), name, must(minseptest.Training(folder)))
		must(direct.Execute(t.Context(), p))
		plain[name] = folder
	}
	for name := range pipelines { // the wrappers are for all later pipelines of this process
		edges, _, err := everything(t.Context(), name, must(minseptest.Training(t.TempDir()))).Build()
		must(0, err)
		for _, e := range edges {
			if e.DoFn != nil && e.DoFn.Recv != nil {
				reflectx.RegisterStructWrapper(reflect.TypeOf(e.DoFn.Recv).Elem(), attempts)
			}
		}
	}
	for name, once := range plain {
		for runner, execute := range map[string]func(context.Context, *beam.Pipeline) (beam.PipelineResult, error){
			"direct": direct.Execute, "prism": prism.Execute,
		} {
			t.Run(name+"/"+runner, func(t *testing.T) {
				folder := t.TempDir()
				p := everything(t.Context(), name, must(minseptest.Training(folder)))
				before := repeated.Load()
				if _, err := execute(t.Context(), p); err != nil {
					t.Fatal(transforms.Fault(err))
				}
				if repeated.Load() == before {
					t.Error("nothing was repeated")
				}
				must(0, minseptest.SameBatches(t.Context(), filepath.Join(folder, minseptest.RunFolder), filepath.Join(once, minseptest.RunFolder)))
				if got, want := parts(t, folder), parts(t, once); !maps.Equal(got, want) {
					t.Errorf("files %v, without retries %v", got, want)
				}
			})
		}
	}
}

// parts are the files of a run with a number in their name, and their contents.
func parts(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	files := must(filepath.Glob(filepath.Join(folder, minseptest.RunFolder, "*", "*-0*")))
	for _, file := range files {
		name := must(filepath.Rel(folder, file))
		all[name] = fmt.Sprintf("%x", sha256.Sum256(must(os.ReadFile(file))))
	}
	if len(all) < 3 {
		t.Fatalf("files %q", files)
	}
	return all
}

// repeated is the number of calls that were made twice.
var repeated atomic.Int64

// attempts makes two attempts of each bundle of a DoFn at the same time, as with a worker that its
// runner takes for dead. Only the second attempt emits.
func attempts(fn any) map[string]reflectx.Func {
	kept := reflect.ValueOf(fn)
	lost := reflect.New(kept.Type().Elem())
	b, err := json.Marshal(fn)
	if err == nil {
		err = json.Unmarshal(b, lost.Interface())
	}
	if err != nil {
		panic(err)
	}
	methods := map[string]reflectx.Func{}
	for _, name := range []string{"Setup", "StartBundle", "ProcessElement", "FinishBundle", "Teardown"} {
		second := kept.MethodByName(name)
		if !second.IsValid() {
			continue
		}
		first := lost.MethodByName(name)
		twice := reflect.MakeFunc(second.Type(), func(args []reflect.Value) []reflect.Value {
			var emitted [2][]string
			other := make([]reflect.Value, len(args))
			for i, arg := range args {
				other[i], args[i] = doubled(arg, &emitted)
			}
			failed := func(out []reflect.Value) bool {
				n := len(out)
				return n > 0 && second.Type().Out(n-1) == reflect.TypeFor[error]() && !out[n-1].IsNil()
			}
			out := first.Call(other)
			if failed(out) {
				return out
			}
			repeated.Add(1)
			out = second.Call(args)
			if !failed(out) && !slices.Equal(emitted[0], emitted[1]) {
				panic(fmt.Sprintf("%T.%s: a repeated bundle emits %q, and before %q", fn, name, emitted[1], emitted[0]))
			}
			return out
		})
		methods[name] = reflectx.MakeFunc(twice.Interface())
	}
	return methods
}

// doubled is an argument of a DoFn for two attempts, which note what they emit. Only the second one
// emits.
func doubled(arg reflect.Value, emitted *[2][]string) (first, second reflect.Value) {
	t := arg.Type()
	switch {
	case t == reflect.TypeFor[[]byte]():
		return reflect.ValueOf(bytes.Clone(arg.Bytes())), arg
	case t.Kind() != reflect.Func || t.NumIn() == 0:
		return arg, arg
	case t.NumOut() == 0: // an emitter
		attempt := func(i int) reflect.Value {
			return reflect.MakeFunc(t, func(element []reflect.Value) []reflect.Value {
				for _, x := range element {
					emitted[i] = append(emitted[i], fmt.Sprint(x.Interface()))
				}
				if i == 1 {
					arg.Call(element)
				}
				return nil
			})
		}
		return attempt(0), attempt(1)
	}
	var all [][]reflect.Value // of an iterator
	for more := true; more; {
		var element []reflect.Value
		for i := range t.NumIn() {
			element = append(element, reflect.New(t.In(i).Elem()))
		}
		if more = arg.Call(element)[0].Bool(); more {
			all = append(all, element)
		}
	}
	iterator := func() reflect.Value {
		next := 0
		return reflect.MakeFunc(t, func(into []reflect.Value) []reflect.Value {
			more := next < len(all)
			for i := range into {
				if more {
					x, _ := doubled(all[next][i].Elem(), nil)
					into[i].Elem().Set(x)
				}
			}
			next++
			return []reflect.Value{reflect.ValueOf(more)}
		})
	}
	return iterator(), iterator()
}
