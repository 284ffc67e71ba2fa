package stages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"minsep/sampling"
	"slices"
	"strconv"
	"strings"
)

// JSONDifferences says where two JSON values of objects differ. inWant tells in a message where the
// second is.
func JSONDifferences(was, want []byte, inWant string) []string {
	a, b := map[string]string{}, map[string]string{}
	flattenJSON("", ".", was, a)
	flattenJSON("", ".", want, b)
	return mapDifferences(a, b, "there", inWant)
}

// mapDifferences says where two maps differ, and which is which.
func mapDifferences(a, b map[string]string, inA, inB string) (list []string) {
	for name, value := range a {
		if b[name] != value {
			list = append(
				list,
				fmt.Sprintf("%s is %s %s, %s %s", name, value, inA, cmp.Or(b[name], "absent"), inB),
			)
		}
	}
	for name, value := range b {
		if a[name] == "" {
			list = append(list, fmt.Sprintf("%s is absent %s, %s %s", name, inA, value, inB))
		}
	}
	slices.Sort(list)
	return list
}

// flattenJSON puts every value of nested objects into flat, by its path, of names with a separator
// between them.
func flattenJSON(path, separator string, b []byte, flat map[string]string) {
	var object map[string]json.RawMessage
	if json.Unmarshal(b, &object) != nil || len(object) == 0 && path != "" {
		var line bytes.Buffer // a list in an indented file has a line for each element
		if json.Compact(&line, b) != nil {
			line.Write(b)
		}
		flat[path] = readable(line.String())
		return
	}
	for name, value := range object {
		flattenJSON(strings.TrimPrefix(path+separator+name, separator), separator, value, flat)
	}
}

// readable returns a hexadecimal number, as noise has them, in decimals.
func readable(value string) string {
	x, err := strconv.ParseFloat(strings.Trim(value, `"`), 64)
	if err != nil || !strings.HasPrefix(value, `"0x`) {
		return value
	}
	return fmt.Sprint(x)
}

// Differences says how two samplers differ, parameter by parameter.
func Differences(a, b sampling.Spec, inA, inB string) []string {
	return mapDifferences(parameters(a), parameters(b), inA, inB)
}

// parameters flattens a sampler: "b-min-sep prob" → "0.25".
func parameters(s sampling.Spec) map[string]string {
	flat := map[string]string{}
	if b, err := json.Marshal(s); err == nil {
		flattenJSON("", " ", b, flat)
	}
	return flat
}
