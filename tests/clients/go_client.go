// The story through conductor-go: CONDUCTOR_SERVER_URL=... ./story
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/antihax/optional"
	"github.com/conductor-sdk/conductor-go/sdk/client"
	"github.com/conductor-sdk/conductor-go/sdk/model"
	"github.com/conductor-sdk/conductor-go/sdk/settings"
	"github.com/conductor-sdk/conductor-go/sdk/worker"
	"github.com/conductor-sdk/conductor-go/sdk/workflow/executor"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	api := client.NewAPIClient(nil, settings.NewHttpSettings(os.Getenv("CONDUCTOR_SERVER_URL")))
	metadata, schedules := client.NewMetadataClient(api), client.NewSchedulerClient(api)
	flows := executor.NewWorkflowExecutor(api)

	definition := model.TaskDef{Name: "flaky", RetryCount: 2, RetryDelaySeconds: 1, ResponseTimeoutSeconds: 30, TimeoutSeconds: 60}
	_, err := metadata.RegisterTaskDef(ctx, []model.TaskDef{definition})
	must(err)
	must(flows.RegisterWorkflow(true, &model.WorkflowDef{
		Name: "story", Version: 1, SchemaVersion: 2,
		Tasks: []model.WorkflowTask{
			{Name: "flaky", TaskReferenceName: "f", Type_: "SIMPLE", InputParameters: map[string]interface{}{"name": "${workflow.input.name}"}},
			{Name: "wait", TaskReferenceName: "w", Type_: "WAIT", InputParameters: map[string]interface{}{}},
			{Name: "set", TaskReferenceName: "s", Type_: "SET_VARIABLE", InputParameters: map[string]interface{}{"seen": true}},
		},
		OutputParameters: map[string]interface{}{"text": "${f.output.text}"},
	}))

	var tries int32
	runner := worker.NewTaskRunnerWithApiClient(api)
	must(runner.StartWorker("flaky", func(task *model.Task) (interface{}, error) {
		if atomic.AddInt32(&tries, 1)%2 == 1 {
			return nil, errors.New("not yet")
		}
		return map[string]interface{}{"text": fmt.Sprintf("Hello, %v", task.InputData["name"])}, nil
	}, 1, 100*time.Millisecond))

	said := map[string]interface{}{}
	request := &model.StartWorkflowRequest{Name: "story", Version: 1, Input: map[string]interface{}{"name": "world"}, CorrelationId: "c"}
	run, err := flows.ExecuteWorkflow(request, "")
	must(err)
	said["blocked"] = run.Status
	must(flows.Pause(run.WorkflowId))
	paused, err := flows.GetWorkflowStatus(run.WorkflowId, false, false)
	must(err)
	said["paused"] = paused.Status
	must(flows.Resume(run.WorkflowId))
	must(flows.UpdateTaskByRefName("w", run.WorkflowId, model.CompletedTask, map[string]interface{}{"ok": true}))
	whole, err := flows.GetWorkflow(run.WorkflowId, true)
	must(err)
	for tried := 0; whole.Status == model.RunningWorkflow && tried < 100; tried++ {
		time.Sleep(100 * time.Millisecond)
		whole, err = flows.GetWorkflow(run.WorkflowId, true)
		must(err)
	}
	tasks := [][]string{}
	for _, task := range whole.Tasks {
		tasks = append(tasks, []string{task.ReferenceTaskName, string(task.Status)})
	}
	said["ended"], said["output"], said["tasks"] = whole.Status, whole.Output, tasks

	other, err := flows.StartWorkflow(request)
	must(err)
	must(flows.Terminate(other, "enough"))
	ended, err := flows.GetWorkflow(other, false)
	must(err)
	said["terminated"] = ended.ReasonForIncompletion
	must(flows.Restart(other, false))
	again, err := flows.GetWorkflowStatus(other, false, false)
	must(err)
	said["restarted"] = again.Status
	must(flows.Terminate(other, ""))
	found, err := flows.Search(0, 10, "workflowType='story' AND status IN (COMPLETED,TERMINATED)", "*")
	must(err)
	said["found"] = len(found)
	correlated, _, err := client.NewWorkflowClient(api).GetWorkflowsByCorrelationId(ctx, "story", "c",
		&client.WorkflowResourceApiGetWorkflowsOpts{IncludeClosed: optional.NewBool(true), IncludeTasks: optional.NewBool(true)})
	must(err)
	said["correlated"] = len(correlated)
	_, _, err = schedules.SaveSchedule(ctx, model.SaveScheduleRequest{Name: "nightly", CronExpression: "0 0 2 * * *", StartWorkflowRequest: request})
	must(err)
	schedule, _, err := schedules.GetSchedule(ctx, "nightly")
	must(err)
	said["schedule"] = schedule.CronExpression
	_, _, err = schedules.DeleteSchedule(ctx, "nightly")
	must(err)
	must(flows.UnRegisterWorkflow("story", 1))
	text, err := json.Marshal(said)
	must(err)
	fmt.Println("STORY " + string(text))
}
