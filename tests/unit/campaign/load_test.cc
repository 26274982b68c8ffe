#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "tests/unit/campaign/campaign_fixture.h"

namespace muster {
namespace {

// Good lines to hang a bad one behind: lines 1 to 3.
const std::string kHead =
    "name: t\n"
    "targets: {cal: {null: {}}}\n"
    "steps: [{name: a, target: cal, workload: {size: 1MiB}}]\n";

struct Case {
  const char* what;
  std::string yaml;
  const char* code;
  const char* place;
  const char* says;  // in message or next
};

void Check(const Case& c) {
  const ErrorInfo info = ErrorOf(c.yaml);
  INFO(c.what << ": " << info.place << ": " << info.message << " [" << info.code << "] " << info.next);
  CHECK(info.code == c.code);
  CHECK(info.place == c.place);
  CHECK((info.message + "\n" + info.next).find(c.says) != std::string::npos);
}

TEST_CASE("the smallest campaign is read") {
  CHECK(ErrorOf(kHead).code == "OK");
}

TEST_CASE("YAML that no campaign needs is refused where it stands") {
  const std::vector<Case> cases{
      {"open list", "name: [a\nsteps: 4\n", "YAML_SYNTAX", "c.yaml:2:6", "\"]\" or \",\" is missing"},
      {"open map", kHead + "initiators: {count: 3\n", "YAML_SYNTAX", "c.yaml:5:1", "\"}\" or \",\" is missing"},
      {"tab", "targets:\n\tcal: {}\n", "YAML_SYNTAX", "c.yaml:2:1", "tab"},
      {"colon in a text", "name: a: b\n", "YAML_SYNTAX", "c.yaml:1:8", "needs quotes"},
      {"indentation", "targets:\n   a: {}\n  b: {}\n", "YAML_SYNTAX", "c.yaml:3:3", "indentation"},
      {"quote", "name: \"abc", "YAML_SYNTAX", "c.yaml:1:11", "ends inside a quoted text"},
      {"escape", "name: \"\\\n\\q\"\n", "YAML_SYNTAX", "c.yaml:2:3", "unknown escape character"},
      {"control character", "name: a\nseed: \x04\x31\n", "YAML_SYNTAX", "c.yaml:2:7", "0x04"},
      {"NUL", std::string("name: a\0b\n", 10), "YAML_SYNTAX", "c.yaml:1:8", "0x00"},
      {"lone carriage return", "name: a\rb\n", "YAML_SYNTAX", "c.yaml:1:8", "0x0d"},
      {"latin 1", "name: \xE4\n", "YAML_SYNTAX", "c.yaml:1:7", "UTF-8"},
      {"overlong UTF-8", "name: \xC0\xAF\n", "YAML_SYNTAX", "c.yaml:1:7", "UTF-8"},
      {"surrogate", "name: \xED\xA0\x80\n", "YAML_SYNTAX", "c.yaml:1:7", "UTF-8"},
      {"UTF-16", "\xFF\xFEn\n", "YAML_SYNTAX", "c.yaml:1:1", "UTF-8"},
      {"duplicate key", kHead + "name: u\n", "YAML_DUPLICATE_KEY", "c.yaml:4:1", "first at 1:1"},
      {"duplicate in flow", "name: t\ntargets: {a: {null: {}}, a: {null: {}}}\nsteps: []\n", "YAML_DUPLICATE_KEY",
       "c.yaml:2:26", "first at 2:11"},
      {"anchor", kHead + "seed: &s 1\n", "YAML_ANCHOR", "c.yaml:4:7", "anchors"},
      {"alias", kHead + "seed: *s\n", "YAML_ANCHOR", "c.yaml:4:7", "aliases"},
      {"anchor and alias", kHead + "interval: &s 1s\nop_timeout: *s\n", "YAML_ANCHOR", "c.yaml:4:11", "c.yaml:5:13"},
      {"merge key", kHead + "initiators: {<<: {count: 3}}\n", "YAML_ANCHOR", "c.yaml:4:14", "merge keys"},
      {"tag", kHead + "seed: !!int 1\n", "YAML_TAG", "c.yaml:4:7", "tags"},
      {"tag of a map", kHead + "initiators: !m {count: 3}\n", "YAML_TAG", "c.yaml:4:13", "tags"},
      {"second document", kHead + "---\nname: u\n", "YAML_DOCUMENTS", "c.yaml:4:1", "one document"},
      {"list as a key", kHead + "? [a]\n: 1\n", "WRONG_TYPE", "c.yaml:4:3", "a key must be a name"},
      {"empty", "", "MISSING_KEY", "c.yaml:1:1", "empty"},
      {"comment only", "# nothing\n", "MISSING_KEY", "c.yaml:1:1", "empty"},
      {"empty document", "---\n", "NULL_VALUE", "c.yaml:2:1", "no value"},
  };
  for (const Case& c : cases) Check(c);
}

TEST_CASE("limits end the parser, not the machine") {
  const auto repeat = [](const std::string& text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
  };
  Check({"too long", "#" + std::string(1 << 20, 'x'), "YAML_LIMIT", "c.yaml:1:1", "1 MiB"});
  Check({"open brackets", "a: " + repeat("[", 1'000'000), "YAML_LIMIT", "c.yaml:1:20", "32 levels"});
  Check({"deep maps", "a: " + repeat("{a: ", 32) + repeat("}", 32), "YAML_LIMIT", "c.yaml:1:128", "32 levels"});
  Check({"nested dashes", repeat("- ", 33) + "a\n", "YAML_LIMIT", "c.yaml:1:65", "32 levels"});
  Check({"nodes", "a: [" + repeat("1,", 200'000) + "1]", "YAML_LIMIT", "c.yaml:1:199999", "100000"});
  // 32 levels and 100,000 nodes are allowed: what is wrong then is the key.
  CHECK(ErrorOf("a: " + repeat("[", 31) + repeat("]", 31)).code == "UNKNOWN_KEY");
  CHECK(ErrorOf("a: [" + repeat("1,", 99'996) + "1]").code == "UNKNOWN_KEY");
}

TEST_CASE("options that do not fit are named with their place") {
  const std::vector<Case> cases{
      {"unknown key", kHead + "initiator: {count: 3}\n", "UNKNOWN_KEY", "c.yaml:4:1", "Did you mean \"initiators\"?"},
      {"unknown nested key", kHead + "initiators: {cuont: 3}\n", "UNKNOWN_KEY", "c.yaml:4:14",
       "Did you mean \"count\"?"},
      {"key of a later release", "name: t\ntargets: {a: {smb: {lun: 0}, null: {}}}\nsteps: []\n", "UNKNOWN_KEY",
       "c.yaml:2:15", "Known here: null, file, block"},
      {"known elsewhere", "name: t\ntargets: {a: {null: {}}}\nsteps:\n  - {name: a, target: a, size: 4KiB}\n",
       "MISSING_KEY", "c.yaml:4:5", "It belongs to"},
      {"name missing", "targets: {a: {null: {}}}\nsteps: [{name: a, target: a, workload: {size: 1M}}]\n", "MISSING_KEY",
       "c.yaml:1:1", "name: name of the campaign"},
      {"step without target", "name: t\ntargets: {a: {null: {}}}\nsteps:\n  - name: a\n    workload: {size: 1M}\n",
       "MISSING_KEY", "c.yaml:4:5", "steps[0] needs target"},
      {"target without kind", "name: t\ntargets: {a: {}}\nsteps: [{name: a, target: a, workload: {size: 1M}}]\n",
       "MISSING_KEY", "c.yaml:2:14", "needs one of null, file, block"},
      {"two kinds", "name: t\ntargets:\n  a:\n    null: {}\n    file: {dir: /srv}\n" + kHead.substr(35),
       "CONTRADICTION", "c.yaml:5:5", "null at 4:5"},
      {"null value", kHead + "seed:\n", "NULL_VALUE", "c.yaml:5:1", "seed has no value"},
      {"written null", kHead + "seed: null\n", "NULL_VALUE", "c.yaml:4:7", "seed has no value"},
      {"tilde", kHead + "initiators: ~\n", "NULL_VALUE", "c.yaml:4:13", "initiators has no value"},
      {"value for a map", kHead + "initiators: 3\n", "WRONG_TYPE", "c.yaml:4:13", "map of options, not \"3\""},
      {"list for a value", kHead + "seed: [1]\n", "WRONG_TYPE", "c.yaml:4:7", "single value, not a list"},
      {"map for a value", kHead + "seed: {a: 1}\n", "WRONG_TYPE", "c.yaml:4:7", "single value, not a map"},
      {"text for a campaign", "hello\n", "WRONG_TYPE", "c.yaml:1:1", "not \"hello\""},
      {"list for a map", "name: t\ntargets: [a]\nsteps: []\n", "WRONG_TYPE", "c.yaml:2:10", "not a list"},
      {"octal", kHead + "seed: 010\n", "UNIT_SYNTAX", "c.yaml:4:7", "write 10"},
      {"yes", "name: t\ntargets: {a: {file: {dir: /srv, direct: yes}}}\n" + kHead.substr(35), "UNIT_SYNTAX",
       "c.yaml:2:41", "write true"},
      {"no unit", kHead + "interval: 1\n", "UNIT_SYNTAX", "c.yaml:4:11", "unit"},
      {"out of range", kHead + "interval: 1ms\n", "UNIT_RANGE", "c.yaml:4:11", "from 100ms to 60s"},
      {"enum", kHead + "on_agent_loss: abrot\n", "ENUM_UNKNOWN", "c.yaml:4:16", "Did you mean \"abort\"?"},
      {"name of a target", "name: t\ntargets: {\"a b\": {null: {}}}\n" + kHead.substr(35), "UNIT_SYNTAX", "c.yaml:2:11",
       "not a name"},
      {"no targets", "name: t\ntargets: {}\n" + kHead.substr(35), "UNIT_RANGE", "c.yaml:2:10", "targets is empty"},
      {"no steps", "name: t\ntargets: {a: {null: {}}}\nsteps: []\n", "UNIT_RANGE", "c.yaml:3:8", "steps is empty"},
      {"column after umlauts", "name: t # \xC3\xA4\ndescription: {\xC3\xA4\xC3\xA4: 1}\n", "MISSING_KEY", "c.yaml:1:1",
       "c.yaml:2:14"},
      {"column in characters", kHead + "description: \"\xC3\xA4\xC3\xA4\" x\n", "YAML_SYNTAX", "c.yaml:4:19", ""},
  };
  for (const Case& c : cases) Check(c);
}

TEST_CASE("all problems of a file are told at once, the first ten in order") {
  const ErrorInfo info = ErrorOf(
      "name: t\n"
      "targets: {cal: {null: {hagn: true}}}\n"
      "seed: 01\n"
      "steps:\n"
      "  - {name: a, target: cal, workload: {size: 1MiB, block: 4KB, read: 70}}\n"
      "  - {name: b, workload: {size: 1MiB}}\n");
  CHECK(info.code == "UNKNOWN_KEY");
  CHECK(info.place == "c.yaml:2:24");
  CHECK(
      info.next ==
      "Did you mean \"hang\"?\n"
      "and 3 more:\n"
      "c.yaml:3:7: seed: \"01\" has a leading zero, which some read as octal; write 1 [UNIT_SYNTAX]\n"
      "c.yaml:5:69: steps[0].workload.read: \"70\" is not a percentage: it does not end with \"%\"; write for example "
      "70% or 0.5% [UNIT_SYNTAX]\n"
      "c.yaml:6:5: steps[1] needs target: name of the target [MISSING_KEY]");

  std::string many = kHead;
  for (int i = 0; i < 40; ++i) many += "k" + std::to_string(i) + ": 1\n";
  const ErrorInfo first_ten = ErrorOf(many);
  CHECK(first_ten.place == "c.yaml:4:1");
  CHECK(first_ten.next.find("and 39 more:") != std::string::npos);
  CHECK(first_ten.next.find("c.yaml:13:1:") != std::string::npos);
  CHECK(first_ten.next.find("c.yaml:14:1:") == std::string::npos);
  CHECK(first_ten.next.find("(and 30 not shown)") != std::string::npos);
}

TEST_CASE("a misspelt key is not missing as well") {
  const ErrorInfo info =
      ErrorOf("nmae: t\ntargets: {cal: {null: {}}}\nsteps: [{name: a, target: cal, workload: {size: 1M}}]\n");
  CHECK(info.code == "UNKNOWN_KEY");
  CHECK(info.next == "Did you mean \"name\"?");
}

TEST_CASE("Windows line ends, a byte order mark and quotes change nothing") {
  std::string crlf = "\xEF\xBB\xBF";
  for (const char c : kHead + "seed: '7'\n# end\n") {
    if (c == '\n') crlf += '\r';
    crlf += c;
  }
  const auto loaded = LoadCampaignText("c.yaml", crlf);
  REQUIRE(loaded.ok());
  CHECK(loaded->message.seed() == 7);
  CHECK(loaded->text == crlf);
  CHECK(loaded->message.name() == "t");
  // Places do not shift.
  std::string bad = "\xEF\xBB\xBFnmae: t\r\nseed: 1s\r\n";
  CHECK(ErrorOf(bad).place == "c.yaml:1:1");
  CHECK(ErrorOf(bad).next.find("c.yaml:2:7: seed") != std::string::npos);
}

TEST_CASE("what is left out has its default") {
  const auto loaded = LoadCampaignText("c.yaml", kHead);
  REQUIRE(loaded.ok());
  const v1::Campaign& c = loaded->message;
  CHECK(c.seed() == 1);
  CHECK(c.interval() == 1'000'000'000);
  CHECK(c.op_timeout() == 90'000'000'000);
  CHECK(c.on_agent_loss() == v1::ON_AGENT_LOSS_ABORT);
  CHECK(LoadCampaignText("c.yaml", kHead + "on_agent_loss: continue\n")->message.on_agent_loss() ==
        v1::ON_AGENT_LOSS_CONTINUE);
  CHECK(c.initiators().count() == 1);
  const v1::Step& s = c.steps(0);
  CHECK(s.load() == "1T1Q");
  CHECK(s.workload().block() == 4096);
  CHECK(s.workload().pattern() == v1::PATTERN_RANDOM);
  CHECK(s.workload().read() == 1);
  CHECK(s.workload().trim() == 0);
  CHECK(s.workload().rate_per() == v1::RATE_PER_FLEET);
  CHECK(s.workload().max_outstanding() == 1024);
  CHECK(s.workload().overload_after() == 30'000'000'000);
  CHECK_FALSE(s.workload().has_size_per_initiator());
  CHECK_FALSE(s.workload().has_rate());
  CHECK(s.precondition().fill_block() == 1 << 20);
  CHECK_FALSE(s.precondition().has_fill());
  CHECK(s.measure().warmup() == 5'000'000'000);
  CHECK(s.measure().window() == 30'000'000'000);
  CHECK(c.targets().at("cal").null().latency().shape() == v1::LATENCY_SHAPE_CONSTANT);

  const auto files = LoadCampaignText(
      "c.yaml", "name: t\ntargets: {a: {file: {dir: /srv}}, b: {block: {device: /dev/x}}}\n" + kHead.substr(35));
  REQUIRE(files.ok());
  CHECK(files->message.targets().at("a").file().direct());
  CHECK(files->message.targets().at("a").file().files() == v1::FILE_LAYOUT_ONE);
  CHECK_FALSE(files->message.targets().at("a").file().keep());
  CHECK(files->message.targets().at("b").block().direct());
  CHECK_FALSE(files->message.targets().at("b").block().has_overwrite());
}

TEST_CASE("one value stands for a list of one; false and 0 given are not overruled by defaults") {
  const auto loaded = LoadCampaignText("c.yaml",
                                       "name: t\n"
                                       "seed: 0\n"
                                       "targets: {a: {file: {dir: /srv, direct: false}}}\n"
                                       "steps:\n"
                                       "  - name: a\n"
                                       "    target: a\n"
                                       "    workload: {size: 1MiB}\n"
                                       "    measure: {warmup: 0s}\n"
                                       "    precondition: {fill: 0x}\n"
                                       "    sweep: {initiators: 4, load: [1T4Q]}\n");
  REQUIRE(loaded.ok());
  const v1::Step& step = loaded->message.steps(0);
  CHECK(loaded->message.seed() == 0);
  CHECK_FALSE(loaded->message.targets().at("a").file().direct());
  CHECK(step.measure().warmup() == 0);
  CHECK(step.precondition().has_fill());
  CHECK(step.precondition().fill() == 0);
  REQUIRE(step.sweep().initiators_size() == 1);
  CHECK(step.sweep().initiators(0) == 4);
  CHECK(loaded->Place("steps[0].sweep.initiators[0]") == "c.yaml:10:25");
}

TEST_CASE("places are those of values, of keys, or of what encloses them") {
  const auto loaded = LoadCampaignText("dir/c.yaml",
                                       "name: t\n"
                                       "targets:\n"
                                       "  cal:\n"
                                       "    null: {}\n"
                                       "steps:\n"
                                       "  - name: a\n"
                                       "    target: cal\n"
                                       "    workload:\n"
                                       "      size: 1MiB\n");
  REQUIRE(loaded.ok());
  CHECK(loaded->Place("steps[0].workload.size") == "dir/c.yaml:9:13");
  CHECK(loaded->KeyAt("steps[0].workload.size").column == 7);
  CHECK(loaded->Place("steps[0].workload") == "dir/c.yaml:9:7");
  CHECK(loaded->Place("steps[0].workload.block") == "dir/c.yaml:9:7");
  CHECK(loaded->KeyAt("steps[0].workload.block").line == 8);
  CHECK(loaded->Place("steps[0].sweep.load[3]") == "dir/c.yaml:6:5");
  CHECK(loaded->Place("targets.cal.null") == "dir/c.yaml:4:11");
  CHECK(loaded->Place("initiators.count") == "dir/c.yaml:1:1");
  CHECK(loaded->Place("") == "dir/c.yaml:1:1");
  CHECK(loaded->IsGiven("steps[0].workload.size"));
  CHECK_FALSE(loaded->IsGiven("steps[0].workload.block"));
}

TEST_CASE("files that cannot be read are named") {
  char dir[] = "/tmp/muster-campaign-XXXXXX";
  REQUIRE(mkdtemp(dir) != nullptr);
  const std::string path = std::string(dir) + "/c.yaml";
  const auto code_and_place = [](const std::string& file) {
    const auto loaded = LoadCampaign(file);
    if (loaded.ok()) return std::string("OK");
    const ErrorInfo info = GetErrorInfo(loaded.status());
    return info.code + " " + info.place;
  };
  CHECK(code_and_place(path) == "CAMPAIGN_UNREADABLE " + path);
  CHECK(code_and_place(dir) == "CAMPAIGN_UNREADABLE " + std::string(dir));
  CHECK(code_and_place("/dev/zero") == "CAMPAIGN_UNREADABLE /dev/zero");
  // A pipe without a writer must not wait for one.
  const std::string fifo = std::string(dir) + "/fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(code_and_place(fifo) == "CAMPAIGN_UNREADABLE " + fifo);

  std::ofstream(path) << kHead;
  CHECK(code_and_place(path) == "OK");
  std::ofstream(path) << kHead << "seed: x\n";
  CHECK(code_and_place(path) == "UNIT_SYNTAX " + path + ":4:7");
  std::ofstream(path) << std::string(3 << 20, '#');
  CHECK(code_and_place(path) == "YAML_LIMIT " + path + ":1:1");
  unlink(path.c_str());
  unlink(fifo.c_str());
  rmdir(dir);
}

}  // namespace
}  // namespace muster
