package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// commandFiles lists, by language, files that the commands of docs/clients.md write, each with a
// text that it must contain: the language's name for the package or a message.
var commandFiles = map[string]map[string]string{
	"Go": {
		"fireoncev1/job.pb.go":                                        "package fireoncev1",
		"fireoncev1/fireoncev1connect/job_service.connect.go":         "type JobServiceClient interface",
		"connectorv1/connectorv1connect/connector_service.connect.go": "package connectorv1connect",
	},
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
		"google/rpc/status_pb2.py":            "google.rpc",
	},
	"TypeScript": {
		"fireonce/v1/job_service_pb.ts":                 "export const JobService",
		"fireonce/connector/v1/connector_service_pb.ts": "export const ConnectorService",
	},
	"PHP": {
		"Fireonce/V1/Job.php":   `namespace Fireonce\V1;`,
		"Google/Rpc/Status.php": `namespace Google\Rpc;`,
	},
	"C++": {
		"fireonce/v1/job.pb.h":              "namespace fireonce",
		"fireonce/v1/job_service.grpc.pb.h": "class JobService",
	},
	"Objective-C": {"fireonce/v1/Job.pbobjc.h": "@interface FOXJob "},
	"With buf":    {"fireonce/v1/job_pb2.py": "fireonce.v1"},
}

// contractFolders are the folders that a client is generated from, each alone: the one that the page
// names, and the one that it is made of.
var contractFolders = []string{"gen/proto", "proto"}

// TestCommands runs the commands of docs/clients.md as they are printed, in folders that hold a copy
// of the contract and nothing else. The page states which languages' sections the tests do not run.
func TestCommands(t *testing.T) {
	long(t)
	prepared(t, func(t *testing.T, root string) program {
		t.Helper()
		page := readClientsPage(t, root)
		if want := slices.Sorted(maps.Keys(commandFiles)); !slices.Equal(slices.Sorted(maps.Keys(page.commands)), want) {
			t.Errorf("the page has commands for %q, not for %q", slices.Sorted(maps.Keys(page.commands)), want)
		}
		for _, folder := range contractFolders {
			for language, files := range commandFiles {
				if language == "PHP" && folder == "proto" {
					continue // as the page says
				}
				t.Run(folder+" "+language, func(t *testing.T) {
					t.Parallel()
					dir := generateAlone(t, root, folder, language)
					for name, want := range files {
						got, err := os.ReadFile(filepath.Join(dir, "client", name))
						if err != nil || !strings.Contains(string(got), want) {
							t.Errorf("%s: %v, or no %q in it", name, err, want)
						}
					}
				})
			}
		}
		return program{}
	})
}

// TestCommandsReadErrors checks that the lines of docs/clients.md that read errors are those of the
// programs that the other tests run.
func TestCommandsReadErrors(t *testing.T) {
	root := filepath.Join("..", "..")
	shown := regexp.MustCompile("(?s)\\]\\(\\.\\./([^)\n]+)\\) does:\n\n```[a-z]+\n(.*?)```").FindAllStringSubmatch(readClientsPage(t, root).text, -1)
	if len(shown) != 6 {
		t.Errorf("%d languages", len(shown))
	}
	flat := func(text string) string { return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(text, "") }
	for _, s := range shown {
		program, err := os.ReadFile(filepath.Join(root, s[1]))
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(s[2], "\n\n") {
			if !strings.Contains(flat(string(program)), flat(strings.TrimSpace(part))) {
				t.Errorf("%s does not have:\n%s", s[1], part)
			}
		}
	}
}

// clientsPage is docs/clients.md with the commands of each language, behind those for all, and the
// commands between the two for the package of jobs alone.
type clientsPage struct {
	text      string
	commands  map[string][2]string
	jobsAlone string
}

func readClientsPage(t *testing.T, root string) clientsPage {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := clientsPage{text: string(text), commands: make(map[string][2]string)}
	_, commands, _ := strings.Cut(page.text, "\n## Commands\n")
	commands, _, _ = strings.Cut(commands, "\n## ")
	sections := strings.Split(commands, "\n### ")
	first := shellBlocks(sections[0])
	if len(first) != 2 {
		t.Fatalf("the commands for all languages are %q", first)
	}
	page.jobsAlone = first[1]
	for _, section := range sections[1:] {
		language, _, _ := strings.Cut(section, "\n")
		if strings.HasSuffix(language, " (not run by our tests)") {
			continue
		}
		blocks := shellBlocks(section)
		if len(blocks) != 1 {
			t.Fatalf("%s has %d blocks", language, len(blocks))
		}
		page.commands[language] = [2]string{first[0], blocks[0]}
	}
	return page
}

func shellBlocks(text string) (blocks []string) {
	for _, block := range regexp.MustCompile("(?s)\n```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, block[1])
	}
	return blocks
}

// TestCommandsOfJobsAlone runs them for the package of jobs alone. The client has none of the other
// packages, and needs none: it compiles.
func TestCommandsOfJobsAlone(t *testing.T) {
	long(t)
	prepared(t, func(t *testing.T, root string) program {
		t.Helper()
		page := readClientsPage(t, root)
		for language, files := range commandFiles {
			if language == "With buf" {
				continue // its command does not name files
			}
			t.Run(language, func(t *testing.T) {
				t.Parallel()
				commands := page.commands[language]
				dir := filepath.Join(generate(t, root, "gen/proto", language, commands[0]+page.jobsAlone+commands[1]), "client")
				for name := range files {
					_, err := os.Stat(filepath.Join(dir, name))
					if other := strings.Contains(strings.ToLower(name), "connector"); other == (err == nil) {
						t.Errorf("%s: %v", name, err)
					}
				}
				for _, other := range []string{"connections", "schedules", "admin", "connector"} {
					for _, name := range []string{"fireonce/" + other, "io/github/fireonce/" + other, other + "v1"} {
						if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
							t.Errorf("%s was generated, too", name)
						}
					}
				}
				compileJobsAlone(t, root, language, dir)
			})
		}
		return program{}
	})
}

// compileJobsAlone compiles a client in languages that need no more for it than the other tests.
func compileJobsAlone(t *testing.T, root, language, client string) {
	t.Helper()
	switch language {
	case "Go": // with the client's own code, which needs no other package either
		for _, name := range clientFiles {
			copyFile(t, filepath.Join(root, "clients", "go", name), filepath.Join(client, name))
		}
		runIn(t, client, "go", "build", "./...")
	case "Python":
		runIn(t, client, findPython(t), "-c", "from fireonce.v1 import job_service_pb2_grpc")
	case "TypeScript":
		tsc, _ := findTypescript(t, root)
		copyFile(t, filepath.Join(root, "examples", "typescript", "package.json"), filepath.Join(client, "package.json"))
		runIn(t, client, tsc, "--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "fireonce/v1/job_service_pb.ts")
	default:
	}
}

// generateAlone copies one folder of the contract into an empty one as proto, runs a language's
// commands of docs/clients.md there, and returns it: the client is in its folder client.
func generateAlone(t *testing.T, root, folder, language string) string {
	t.Helper()
	commands := readClientsPage(t, root).commands[language]
	return generate(t, root, folder, language, commands[0]+commands[1])
}

// generate is generateAlone with commands.
func generate(t *testing.T, root, folder, language, script string) string {
	t.Helper()
	tools := filepath.Join(root, ".tools", "bin")
	for _, tool := range []string{
		"protoc", "grpc_cpp_plugin", "grpc_java_plugin",
		filepath.Join(tools, "buf"), filepath.Join(tools, "protoc-gen-go"), filepath.Join(tools, "protoc-gen-connect-go"),
	} {
		if _, err := exec.LookPath(tool); err != nil {
			missing(t, "protoc with the plugins of gRPC and Go, and buf", err)
		}
	}
	if script == "" {
		t.Fatalf("no commands for %s", language)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "proto"), os.DirFS(filepath.Join(root, folder))); err != nil {
		t.Fatal(err)
	}
	if language == "TypeScript" { // what npm would install
		if err := os.Symlink(filepath.Join(root, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(waiting(t), "sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+tools+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if printed, err := cmd.CombinedOutput(); err != nil || folder == "gen/proto" && len(printed) > 0 {
		t.Fatalf("%s%v\n%s", script, err, printed)
	}
	return dir
}

// TestNoRules checks that gen/proto is proto without the rules: it has each element, and each
// comment of one.
func TestNoRules(t *testing.T) {
	long(t)
	prepared(t, func(t *testing.T, root string) program {
		t.Helper()
		described := make(map[string]map[string]*descriptorpb.FileDescriptorProto)
		for _, folder := range contractFolders {
			described[folder] = describe(t, filepath.Join(root, folder))
		}
		if n := len(described["gen/proto"]); n < 14 || n != len(described["proto"])-1 {
			t.Errorf("%d files of %d", n, len(described["proto"]))
		}
		for name, got := range described["gen/proto"] {
			want := described["proto"][name]
			removeRules(t, want)
			if gotComments, wantComments := comments(got), comments(want); !maps.Equal(gotComments, wantComments) {
				t.Errorf("%s: %d comments, not %d", name, len(gotComments), len(wantComments))
			}
			got.SourceCodeInfo, want.SourceCodeInfo = nil, nil
			if !proto.Equal(got, want) {
				t.Errorf("%s differs in more than its rules", name)
			}
		}
		return program{}
	})
}

// describe returns the descriptors of a folder's files, as protoc has them.
func describe(t *testing.T, folder string) map[string]*descriptorpb.FileDescriptorProto {
	t.Helper()
	out := filepath.Join(t.TempDir(), "described")
	runIn(t, folder, "sh", "-ec", "protoc -I . --include_source_info -o "+out+" $(find . -name '*.proto')")
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	files := make(map[string]*descriptorpb.FileDescriptorProto)
	for _, f := range set.GetFile() {
		files[f.GetName()] = f
	}
	return files
}

// removeRules removes the import of buf.validate from a file, and each option that it declares.
func removeRules(t *testing.T, f *descriptorpb.FileDescriptorProto) {
	t.Helper()
	f.Dependency = slices.DeleteFunc(f.Dependency, func(name string) bool { return strings.HasPrefix(name, "buf/") })
	var remove func(m protoreflect.Message)
	remove = func(m protoreflect.Message) {
		m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case field.Message() == nil:
			case field.IsList():
				for i := range v.List().Len() {
					remove(v.List().Get(i).Message())
				}
			case field.Message().FullName() == "buf.validate.FieldRules", field.Message().FullName() == "buf.validate.MessageRules",
				field.Message().FullName() == "buf.validate.OneofRules":
				m.Clear(field)
			default:
				remove(v.Message())
				if strings.HasSuffix(string(field.Message().Name()), "Options") && !hasFields(v.Message()) {
					m.Clear(field)
				}
			}
			return true
		})
	}
	info := f.SourceCodeInfo
	f.SourceCodeInfo = nil
	remove(f.ProtoReflect())
	f.SourceCodeInfo = info
}

func hasFields(m protoreflect.Message) bool {
	has := len(m.GetUnknown()) > 0
	m.Range(func(protoreflect.FieldDescriptor, protoreflect.Value) bool { has = true; return false })
	return has
}

// comments returns the comments of a file's elements, by the element's path.
func comments(f *descriptorpb.FileDescriptorProto) map[string]string {
	const syntax, imports = "[12]", "[3 " // which are not the same
	all := make(map[string]string)
	for _, l := range f.GetSourceCodeInfo().GetLocation() {
		text := strings.Join(append(l.GetLeadingDetachedComments(), l.GetLeadingComments(), l.GetTrailingComments()), "\x00")
		if at := fmt.Sprint(l.GetPath()); strings.Trim(text, "\x00") != "" && at != syntax && !strings.HasPrefix(at, imports) {
			all[at] = text
		}
	}
	return all
}
