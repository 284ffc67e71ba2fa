package main

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/sampling"
)

// addFlags adds a flag for each field of a struct, and of the structs embedded in it, that has the
// tag flag: the flag's name. The tag help describes the flag. The value of the field is its default.
func addFlags(f *pflag.FlagSet, params any) { addFieldFlags(f, reflect.ValueOf(params).Elem()) }

func addFieldFlags(f *pflag.FlagSet, v reflect.Value) {
	for i := range v.NumField() {
		of := v.Type().Field(i)
		name, help := of.Tag.Get("flag"), of.Tag.Get("help")
		switch {
		case name != "":
			addFlag(f, v.Field(i).Addr().Interface(), name, help)
		case of.Anonymous && of.Type.Kind() == reflect.Struct:
			addFieldFlags(f, v.Field(i))
		}
	}
}

// addFlag adds a flag for a value that to points to.
func addFlag(f *pflag.FlagSet, to any, name, help string) {
	switch v := to.(type) {
	case pflag.Value:
		f.Var(v, name, help)
	case *string:
		f.StringVar(v, name, *v, help)
	case *[]string:
		f.StringSliceVar(v, name, *v, help)
	case *[]int:
		f.IntSliceVar(v, name, *v, help)
	case *[]float64:
		f.Float64SliceVar(v, name, *v, help)
	case *time.Duration:
		f.DurationVar(v, name, *v, help)
	case *uint64:
		f.Uint64Var(v, name, *v, help)
	case *int:
		f.IntVar(v, name, *v, help)
	case *int64:
		f.Int64Var(v, name, *v, help)
	case *float64:
		f.Float64Var(v, name, *v, help)
	case *bool:
		f.BoolVar(v, name, *v, help)
	case **sampling.Table: // nil unless it is given
		f.Func(name, help, func(file string) error {
			const limit = 1 << 27 // bytes: more than the largest table has
			b, err := store.ReadFile(context.Background(), file, limit)
			if err != nil {
				return err
			}
			return strictjson.Unmarshal(b, v)
		})
	case **float64: // nil unless it is given
		f.Func(name, help, func(text string) error {
			x, err := strconv.ParseFloat(text, 64)
			*v = &x
			return err
		})
	case **bool:
		f.BoolFunc(name, help, func(text string) error {
			x, err := strconv.ParseBool(text)
			*v = &x
			return err
		})
	default:
		panic(fmt.Sprintf("minsep: --%s: a flag of type %T", name, to))
	}
}
