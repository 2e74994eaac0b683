package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// commandFiles lists, by language, files that the commands of docs/clients.md write, each with a
// text that it must contain: the language's name for the package or a message.
var commandFiles = map[string]map[string]string{
	"Java": {
		"io/github/fireonce/v1/Job.java":                            "package io.github.fireonce.v1;",
		"io/github/fireonce/v1/JobServiceGrpc.java":                 "class JobServiceGrpc",
		"io/github/fireonce/connector/v1/ConnectorServiceGrpc.java": "package io.github.fireonce.connector.v1;",
	},
	"Kotlin": {"io/github/fireonce/v1/JobKt.kt": "object JobKt"},
	"C#": {
		"Fireonce/V1/Job.cs":                        "namespace Fireonce.V1 {",
		"Fireonce/Connector/V1/ConnectorService.cs": "namespace Fireonce.Connector.V1 {",
	},
	"Ruby": {
		"fireonce/v1/job_pb.rb":                         "module Fireonce",
		"fireonce/v1/job_service_services_pb.rb":        "module JobService",
		"fireonce/connector/v1/connector_service_pb.rb": "module Connector",
	},
	"Python": {
		"fireonce/v1/job_pb2.py":              "fireonce.v1",
		"fireonce/v1/job_service_pb2_grpc.py": "class JobServiceStub",
	},
	"TypeScript": {
		"fireonce/v1/job_service_pb.ts":                 "export const JobService",
		"fireonce/connector/v1/connector_service_pb.ts": "export const ConnectorService",
	},
	"PHP": {
		"Fireonce/V1/Job.php":              `namespace Fireonce\V1;`,
		"Fireonce/V1/JobServiceClient.php": "class JobServiceClient",
	},
	"C++": {
		"fireonce/v1/job.pb.h":              "namespace fireonce",
		"fireonce/v1/job_service.grpc.pb.h": "class JobService",
	},
	"Objective-C": {"fireonce/v1/Job.pbobjc.h": "@interface FOXJob "},
}

// TestCommands runs the commands of docs/clients.md as they are printed. The page states which
// languages' sections the tests do not run.
func TestCommands(t *testing.T) {
	long(t)
	prepared(t, func(t *testing.T, root string) program {
		t.Helper()
		t.Setenv("PATH", filepath.Join(root, ".tools", "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
		for _, tool := range []string{"protoc", "grpc_cpp_plugin", "grpc_java_plugin", "buf"} {
			if _, err := exec.LookPath(tool); err != nil {
				missing(t, "protoc with gRPC's plugins, and buf", err)
			}
		}
		text, err := os.ReadFile(filepath.Join(root, "docs", "clients.md"))
		if err != nil {
			t.Fatal(err)
		}
		_, commands, _ := strings.Cut(string(text), "\n## Commands\n")
		commands, _, _ = strings.Cut(commands, "\n## ")
		sections := strings.Split(commands, "\n### ")
		first := shellBlocks(sections[0])
		if len(first) != 1 || !strings.HasPrefix(first[0], "OUT=client\n") {
			t.Fatalf("the commands for all languages are %q", first)
		}
		var ran []string
		for _, section := range sections[1:] {
			language, _, _ := strings.Cut(section, "\n")
			blocks := shellBlocks(section)
			if strings.Contains(section, "not run by our tests") && commandFiles[language] == nil {
				continue
			}
			if len(blocks) != 1 || commandFiles[language] == nil {
				t.Errorf("%s: %d blocks, and files that are expected: %v", language, len(blocks), commandFiles[language])
				continue
			}
			ran = append(ran, language)
			t.Run(language, func(t *testing.T) { testCommands(t, root, language, first[0]+blocks[0]) })
		}
		if want := slices.Sorted(maps.Keys(commandFiles)); !slices.Equal(slices.Sorted(slices.Values(ran)), want) {
			t.Errorf("the page has commands for %q, not for %q", ran, want)
		}
		return program{}
	})
}

func shellBlocks(text string) (blocks []string) {
	for _, block := range regexp.MustCompile("(?s)\n```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, block[1])
	}
	return blocks
}

func testCommands(t *testing.T, root, language, script string) {
	t.Helper()
	out := t.TempDir()
	script = strings.Replace(script, "OUT=client\n", "OUT="+out+"\n", 1)
	if language == "Python" {
		script = strings.Replace(script, "python3", findPython(t), 1)
	}
	cmd := exec.CommandContext(waiting(t), "sh", "-ec", script)
	cmd.Dir = root
	if printed, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s%v\n%s", script, err, printed)
	}
	for name, want := range commandFiles[language] {
		got, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %v, or no %q in it", name, err, want)
		}
	}
}
