package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"minsep/internal/stages"
)

// TestEveryStageHasASchema names the formats of indexes that the schema of indexes leaves out.
// TestSchemasHaveEveryField does so for the groups of a plan.
func TestEveryStageHasASchema(t *testing.T) {
	var schema struct {
		Properties struct {
			Format struct{ Enum []string }
		}
	}
	b, err := os.ReadFile(filepath.Join(schemaFolder, "index.schema.json"))
	if err == nil {
		err = json.Unmarshal(b, &schema)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stages.All {
		for _, format := range s.Formats {
			if !slices.Contains(schema.Properties.Format.Enum, format) {
				t.Errorf("index.schema.json has no format %s, of stage %s", format, s.Name)
			}
		}
	}
}
