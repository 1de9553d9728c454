#pragma once

// What regions of one form share in a compile: the search for schedules, kernels and their binaries.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "mir/graph/graph.h"
#include "mir/memory/region_form.h"

namespace aicf {

/// The kernels of a form. Their source names no node of the model: tensors are in0, in1, … and out0, …; values that the
/// model named are x0, x1, …
struct FormKernels {
  std::string region;  ///< the first region of the form, after which its kernels are named
  LoweredRegion lowered;
  std::vector<ThreadProgram> programs;  ///< one per kernel
  std::vector<std::string> sources;     ///< one per kernel
  std::vector<std::string> tensors;     ///< names in the source, by place in the form (RegionForm::tensors)
};

class FormBook {
 public:
  /// `graph` names what the source must not name; schedules with a source in `refused` are passed over. The target and
  /// `refused` must outlive the book.
  FormBook(const Graph& graph, const Target& target, ScheduleOptions options,
           const std::map<std::string, std::string>& refused);

  /// Best first, in the region's own names.
  Result<std::vector<Schedule>> ranked(const StreamingRegion& region);

  struct Chosen {
    ChosenSchedule schedule;  ///< the first that lowers, in the region's own names; `programs` are the form's
    RegionForm form;
    const FormKernels* kernels = nullptr;  ///< lives as long as the book
  };
  /// The best schedule that lowers and is not refused, and the kernels it makes. Errors: of the last one that failed.
  Result<Chosen> choose(const StreamingRegion& region);

 private:
  struct Entry {
    std::vector<Schedule> schedules;  ///< tiles by place in the form
    std::size_t taken = 0;            ///< the schedule of `kernels`
    FormKernels kernels;              ///< without programs until a region of the form is chosen
  };
  Result<Entry*> entry(const StreamingRegion& region, const RegionForm& form);
  Result<FormKernels> make_kernels(const StreamingRegion& region, const RegionForm& form,
                                   const Schedule& schedule) const;

  const Target& target_;
  ScheduleOptions options_;
  const std::map<std::string, std::string>& refused_;
  std::set<std::string> model_names_;
  std::map<std::string, Entry> known_;  ///< by form and the forced choices that concern it
};

}  // namespace aicf
