#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "agent/backend/backend.h"

namespace muster::test {

// One opened backend over one object, with a pool of `depth` page-aligned 64 KiB buffers.
class Rig {
 public:
  static constexpr uint32_t kBuffer = 64 * 1024;
  // Takes the descriptor (may be -1). Does not open the backend yet.
  Rig(std::unique_ptr<Backend> backend, int fd, uint64_t size, uint32_t depth);
  ~Rig();
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  // Opens with the asked depth; a failed Open fails the test.
  void Open();
  Backend& backend() { return *backend_; }
  uint64_t size() const { return size_; }
  uint32_t depth() const { return depth_; }
  int fd() const { return object_.fd; }
  uint8_t* buffer(uint32_t i) { return pool_ + size_t{i} * kBuffer; }
  std::span<const BackendObject> objects() const { return {&object_, 1}; }
  std::span<const BufferRegion> regions() const { return {&region_, 1}; }
  // An operation with buffer `i` and tag `i`.
  IoOp Op(IoKind kind, uint64_t offset, uint32_t bytes, uint32_t i = 0);
  // Submits all and reaps until every one is back, in completion order. Fails the test after 60 s.
  std::vector<IoCompletion> Run(std::vector<IoOp> ops);
  IoCompletion RunOne(const IoOp& op) { return Run({op}).at(0); }
  // Submits all at once, waiting while a connection is down; fails the test unless all are taken by one Submit, or
  // after 60 s. Nothing may be outstanding.
  void SubmitAll(const std::vector<IoOp>& ops);
  // Reaps `count` more completions. Fails the test after 60 s.
  std::vector<IoCompletion> Collect(size_t count);
  // Lets a hanging rig's operations end (kernel paths); set by the environment.
  std::function<void()> release;
  // After a Close that returned false the pool must stay as it is.
  void AbandonPool() { pool_abandoned_ = true; }

 private:
  std::unique_ptr<Backend> backend_;
  BackendObject object_;
  BufferRegion region_;
  uint64_t size_;
  uint32_t depth_;
  uint8_t* pool_ = nullptr;
  bool pool_abandoned_ = false;
};

// A place a backend is tested in, and what may be expected there.
class Environment {
 public:
  virtual ~Environment() = default;
  virtual std::string name() const = 0;
  virtual bool has_content() const { return true; }        // reads return what was written
  virtual bool checks_alignment() const { return false; }  // O_DIRECT and it matters
  virtual bool checks_bounds() const { return true; }      // knows where the object ends
  virtual bool grows() const { return false; }             // a write beyond the end is fine
  virtual bool driven_by_time() const { return false; }    // no WaitFd
  virtual bool has_descriptor() const { return true; }     // objects are descriptors, other backends can share them
  // A connection that can be torn down: Abort does, so that nothing is accepted until it is up again, and Close ends
  // whatever is outstanding.
  virtual bool is_connection() const { return false; }
  // A fresh object of `size` bytes, all of it written (zeroes), backend opened.
  virtual std::unique_ptr<Rig> Make(uint32_t depth, uint64_t size) = 0;
  // Reads of it do not end by themselves; see Rig::release.
  virtual std::unique_ptr<Rig> MakeHanging(uint32_t depth) = 0;
};

// All of them; made at the first call, they live until the process ends.
std::vector<Environment*> Environments();

// At the head of a test case: the case runs once in each environment.
#define FOR_EACH_ENVIRONMENT(env)                           \
  Environment& env = *GENERATE(from_range(Environments())); \
  INFO("environment: " << (env).name())

}  // namespace muster::test
