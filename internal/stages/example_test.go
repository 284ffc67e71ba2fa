package stages_test

import (
	"fmt"

	"minsep/internal/stages"
)

// A plan is JSON with comments. Validate reports the faults of its text and of its values together.
func ExampleParsePlan() {
	plan, err := stages.ParsePlan("plan.json", []byte(stages.PlanExample))
	fmt.Println(plan.Privacy.Epsilon, err)

	plan, err = stages.ParsePlan("plan.json", []byte(`{"example": 3}`))
	fmt.Println(err, plan.Validate() != nil)
	// Output:
	// 4 <nil>
	// <nil> true
}
