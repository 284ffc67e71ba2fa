package pipelines

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// jsonDifferences says where two JSON values of objects differ.
func jsonDifferences(was, want []byte) []string {
	a, b := map[string]string{}, map[string]string{}
	flattenJSON("", was, a)
	flattenJSON("", want, b)
	return mapDifferences(a, b, "there", "in the plan")
}

// mapDifferences says where two maps differ, and which is which.
func mapDifferences(a, b map[string]string, inA, inB string) (list []string) {
	for name, value := range a {
		if b[name] != value {
			list = append(list, fmt.Sprintf("%s is %s %s, %s %s", name, value, inA, or(b[name], "absent"), inB))
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

func flattenJSON(path string, b []byte, flat map[string]string) {
	var object map[string]json.RawMessage
	if json.Unmarshal(b, &object) != nil || object == nil {
		flat[path] = string(b)
		return
	}
	for name, value := range object {
		flattenJSON(strings.TrimPrefix(path+"."+name, "."), value, flat)
	}
}
